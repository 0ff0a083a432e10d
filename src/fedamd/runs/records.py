"""What a round leaves: a typed record, a line of metrics.jsonl.

{"round": 3, "loss": 0.81, "metrics": {"test_loss": 0.79, "accuracy": 0.74}, "roles": {"anchor": 12, "miner": 7},
 "missing": 1, "rejected": 0, "costs": {"gradient_samples": …, "bits_up": …, "bits_down": …}, "extras": {},
 "seconds": 0.2}

Round −1 is the start-up, whose costs are in no total. Lines of earlier versions were flat; they are read as well.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

COSTS = ("gradient_samples", "bits_up", "bits_down")
_MEASURED = ("test_loss", "accuracy")
_FLAT = {"round", "loss", "missing", "rejected", "seconds", *_MEASURED, *COSTS}
_FLAT_EXTRAS = {  # what federations counted beside roles in flat lines
    *("absent", "failed", "overdue", "late", "lost", "refused", "retries"),
    *("wire_bits_up", "wire_bits_down"),
}


@dataclass(frozen=True)
class Record:
    """One round; what was not measured in it, or is not finite, is None."""

    round: int
    loss: float | None = None  # the clients' mean training loss
    metrics: dict[str, float | None] = field(default_factory=dict)  # measured on the test set
    roles: dict[str, int] = field(default_factory=dict)  # role → how many clients replied in it
    missing: int = 0  # clients that never replied
    rejected: int = 0  # replies that were dropped: not finite, or of the wrong shape
    costs: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COSTS, 0))  # so far; whole but for seconds
    extras: dict[str, float] = field(default_factory=dict)  # what the engine counts besides
    clients: dict[str, Any] = field(default_factory=dict)  # metric → how it is spread over the clients' own tests
    seconds: float = 0.0

    @property
    def accuracy(self) -> float | None:
        return self.metrics.get("accuracy")

    @property
    def test_loss(self) -> float | None:
        return self.metrics.get("test_loss")

    @property
    def gradient_samples(self) -> int:
        return int(self.costs["gradient_samples"])

    @property
    def bits(self) -> int:
        """Up and down."""
        return int(self.costs["bits_up"] + self.costs["bits_down"])

    def measured(self, name: str) -> float | None:
        """The training loss, or a metric; None where it was not measured."""
        return self.loss if name == "loss" else self.metrics.get(name)

    def to_json(self) -> dict[str, Any]:
        line = asdict(self)
        return line if self.clients else {key: value for key, value in line.items() if key != "clients"}

    @classmethod
    def from_json(cls, line: Any) -> "Record":
        """From a line as `to_json` makes it, or a flat one; anything else is a ValueError."""
        if not isinstance(line, dict) or "round" not in line:
            raise ValueError("not the record of a round")
        try:
            return cls(**line) if "costs" in line else _from_flat(line)
        except (KeyError, TypeError):
            raise ValueError("not the record of a round") from None


def _from_flat(line: Mapping[str, Any]) -> Record:
    """Roles were keys of their own, in the plural."""
    others = {key: value for key, value in line.items() if key not in _FLAT}
    return Record(
        round=line["round"],
        loss=line["loss"],
        metrics={name: line[name] for name in _MEASURED},
        roles={key.removesuffix("s"): value for key, value in others.items() if key not in _FLAT_EXTRAS},
        missing=line["missing"],
        rejected=line["rejected"],
        costs={name: line[name] for name in COSTS},
        extras={key: value for key, value in others.items() if key in _FLAT_EXTRAS},
        seconds=line["seconds"],
    )
