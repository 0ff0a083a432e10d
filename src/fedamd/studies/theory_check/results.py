"""What a study finds: numbers in a table, lines in a figure, and verdicts on declared expectations."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

TableValue = str | float | int | None  # None: not reached within the rounds that were watched


@dataclass(frozen=True)
class Expectation:
    """Theory and measurement agree if a number lies between `low` and `high`."""

    text: str
    low: float
    high: float

    def judge(self, value: float | None) -> "ExpectationVerdict":
        return ExpectationVerdict(self, value)


@dataclass(frozen=True)
class ExpectationVerdict:
    """An expectation and what was measured; no value where the runs were too short to tell."""

    expectation: Expectation
    value: float | None

    @property
    def word(self) -> str:
        if self.value is None:
            return "not measured"
        return "agrees" if self.expectation.low <= self.value <= self.expectation.high else "DISAGREES"

    @property
    def range(self) -> str:
        return f"{self.expectation.low:g} … {self.expectation.high:g}"


@dataclass(frozen=True)
class Line:
    """A line of a figure; `low` and `high` are the ends of intervals around y. A dashed line is theory."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dashed: bool = False


@dataclass(frozen=True)
class Figure:
    """What a figure shows, and on which axes."""

    x: str
    y: str
    lines: Sequence[Line]
    log_x: bool = True
    log_y: bool = True


@dataclass(frozen=True)
class StudyResult:
    """One study's outcome."""

    name: str
    title: str
    setting: str  # what was run, in words
    columns: Sequence[str]
    rows: Sequence[Sequence[TableValue]]
    verdicts: Sequence[ExpectationVerdict]
    figure: Figure
    remarks: Sequence[str] = field(default_factory=tuple)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        plain = asdict(self)
        plain["verdicts"] = [
            asdict(verdict.expectation) | {"value": verdict.value, "verdict": verdict.word} for verdict in self.verdicts
        ]
        return plain
