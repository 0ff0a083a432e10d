"""What a round leaves: a typed record, a line of metrics.jsonl.

{"round": 3, "loss": 0.81, "metrics": {"test_loss": 0.79, "accuracy": 0.74}, "roles": {"anchor": 12, "miner": 7},
 "missing": 1, "rejected": 0, "costs": {"gradient_samples": …, "bits_up": …, "bits_down": …}, "extras": {},
 "seconds": 0.2}

Round −1 is the start-up, whose costs are in no total. Lines of earlier versions were flat; they are read as well.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

COSTS = ("gradient_samples", "bits_up", "bits_down")
_INFINITE = float("inf")
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
            record = cls(**line) if "costs" in line else _from_flat(line)
        except (KeyError, TypeError):
            raise ValueError("not the record of a round") from None
        if wrong := [name for name, is_right in _RIGHT.items() if not is_right(getattr(record, name))]:
            raise ValueError(f"not the record of a round: its {wrong[0]} makes no sense")
        return record


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -_INFINITE < value < _INFINITE


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_measured(value: object) -> bool:
    return value is None or _is_number(value)


def _is_spread(value: object) -> bool:
    """How a metric is spread over the clients: numbers, and one for every client."""
    if not isinstance(value, dict):
        return False
    return all(all(map(_is_measured, one)) if isinstance(one, list) else _is_measured(one) for one in value.values())


def _all(is_right: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda values: isinstance(values, dict) and all(map(is_right, values.values()))


_RIGHT: dict[str, Callable[[object], bool]] = {  # what each part of a record may be
    "round": lambda value: type(value) is int and value >= -1,
    "loss": _is_measured,
    "metrics": _all(_is_measured),
    "roles": _all(_is_count),
    "missing": _is_count,
    "rejected": _is_count,
    "costs": lambda value: _all(_is_number)(value) and isinstance(value, dict) and value.keys() >= set(COSTS),
    "extras": _all(_is_number),
    "clients": _all(_is_spread),
    "seconds": _is_number,
}


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
