"""What the paper printed: Table 2 (Fashion-MNIST, K = 10, b' = 64) and the claims its text makes of it."""

from typing import NamedTuple


class Printed(NamedTuple):
    """One cell of Table 2: costs and rounds to 75 %, accuracy after 400 rounds."""

    gradients: float  # ×10⁵ samples
    communication: float  # ×32 Mbit
    rounds: int
    accuracy: float  # %


TABLE_2: dict[tuple[str, int], Printed] = {
    ("BVR-L-SGD", 20): Printed(101.9, 853.9, 310, 77.0),
    ("BVR-L-SGD", 40): Printed(177.4, 1492.3, 275, 78.6),
    ("BVR-L-SGD", 100): Printed(463.8, 3908.7, 291, 78.0),
    ("FedAvg", 20): Printed(40.8, 566.9, 318, 76.4),
    ("FedAvg", 40): Printed(78.3, 1087.5, 305, 76.7),
    ("FedAvg", 100): Printed(186.9, 2594.5, 291, 77.0),
    ("FedPAGE", 20): Printed(148.6, 1670.4, 271, 79.2),
    ("FedPAGE", 40): Printed(164.3, 1622.4, 203, 80.6),
    ("FedPAGE", 100): Printed(525.5, 4540.3, 339, 77.1),
    ("SCAFFOLD", 20): Printed(47.5, 1318.6, 370, 75.9),
    ("SCAFFOLD", 40): Printed(91.4, 2537.8, 356, 76.0),
    ("SCAFFOLD", 100): Printed(250.9, 6966.0, 391, 75.1),
    ("FedAMD (constant)", 20): Printed(35.5, 489.8, 259, 80.6),
    ("FedAMD (constant)", 40): Printed(55.0, 776.3, 209, 82.3),
    ("FedAMD (constant)", 100): Printed(153.9, 2147.8, 229, 83.4),
    ("FedAMD (sequential)", 20): Printed(40.2, 475.3, 213, 79.5),
    ("FedAMD (sequential)", 40): Printed(80.4, 904.5, 190, 80.8),
    ("FedAMD (sequential)", 100): Printed(253.8, 2998.8, 269, 78.7),
}
