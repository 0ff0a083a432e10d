"""The paper's experiments as they are declared, and its numbers as they are written down."""

import pytest

from fedamd.runs.config import load_config
from fedamd.studies.paper.experiments import COHORTS, EXPERIMENTS, METHODS, PaperCurve
from fedamd.studies.paper.reference import TABLE_2

D, N, M, K, B = 44_426, 600, 100, 10, 64
OPTIMAL = {20: 0.887, 40: 0.927, 100: 0.961}  # p*


def round_costs(method: str, A: int) -> tuple[float, float]:
    """Gradient samples and d-vectors of an average round, as the paper counts them."""
    p = OPTIMAL[A]
    return {
        "FedAvg": (A * K * B, 2 * A),
        "SCAFFOLD": (A * K * B, 4 * A),
        "FedAMD (constant)": (A * (p * N + (1 - p) * 2 * K * B), A * (2 * p + 3 * (1 - p))),
        "FedAMD (sequential)": (A * (N + 2 * K * B) / 2, 2.5 * A),
        "BVR-L-SGD": (A * 2 * K * B + 2 * K * B + A * N / 2, 3 * A + 2),
        "FedPAGE": ((M * N + A * (2 * N + 2 * K * B)) / 2, (2 * M + 4 * A) / 2),
    }[method]


def test_the_printed_costs_are_rounds_times_the_cost_of_a_round() -> None:
    """A digit that was copied wrongly would show. What does not fit is known: {0,0,1} was run with 40 clients,
    and p ≈ 0.9 with 100 clients."""
    misfits = set()
    for (method, A), printed in TABLE_2.items():
        gradients, vectors = round_costs(method, A)
        if abs(printed.rounds * gradients / 1e5 / printed.gradients - 1) > 0.03:
            misfits.add((method, A, "gradients"))
        if abs(printed.rounds * vectors * D / 1e6 / printed.communication - 1) > 0.03:
            misfits.add((method, A, "communication"))
    assert misfits == {
        ("FedAMD (sequential)", 40, "gradients"),
        ("FedAMD (sequential)", 40, "communication"),
        ("FedAMD (constant)", 100, "gradients"),
        ("FedAMD (constant)", 100, "communication"),
    }


def test_accuracies_as_printed() -> None:
    assert [TABLE_2["FedAMD (constant)", A].accuracy for A in COHORTS] == [80.6, 82.3, 83.4]
    assert [TABLE_2["FedAvg", A].accuracy for A in COHORTS] == [76.4, 76.7, 77.0]
    assert [TABLE_2["SCAFFOLD", A].accuracy for A in COHORTS] == [75.9, 76.0, 75.1]


def test_table_2_has_every_method_with_every_cohort() -> None:
    cells = EXPERIMENTS["table2"].cells
    assert {(cell.label, cell.cohort) for cell in cells} == set(TABLE_2)
    assert len(cells) == len(METHODS) * len(COHORTS) == 18
    assert len(EXPERIMENTS["table2"].rates()) == 18


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_cell_is_a_valid_config(name: str) -> None:
    for cell in EXPERIMENTS[name].cells:
        config = load_config(cell.config(0.1, 1.0, seed=2, rounds=400))
        assert (config.clients, config.cohort, config.seed, config.rounds) == (100, cell.cohort, 2, 400)


def algorithms(name: str) -> list[dict[str, object]]:
    return [dict(cell.algorithm) for cell in EXPERIMENTS[name].cells]


def test_what_the_figures_vary() -> None:
    assert {one["steps"] for one in algorithms("figure1-k5")} == {5}
    assert {one["steps"] for one in algorithms("methods-k20")} == {20}
    assert {one["large_batch"] for one in algorithms("batch-p09")} == {64, 256, "full"}
    emnist: tuple[PaperCurve, ...] = EXPERIMENTS["emnist"].cells
    assert {(one.algorithm["steps"], one.algorithm["small_batch"]) for one in emnist} == {
        (10, 256),
        (20, 128),
        (10, 128),
    }
    assert {one.cohort for one in emnist} == {20}
    assert {(one.data, one.model) for one in emnist} == {("emnist-digits", "mlp")}


def test_the_stand_in_says_that_it_is_one() -> None:
    assert {cell.data for cell in EXPERIMENTS["mnist"].cells} == {"mnist"}
    assert "stand-in" in EXPERIMENTS["mnist"].title
    assert "not the paper's" in EXPERIMENTS["mnist"].notes
