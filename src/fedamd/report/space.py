"""Runs in the space of their settings: the data of a heat map and of parallel coordinates."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedamd.metrics import Measure
from fedamd.report.page import HeatMap, Parallel, TableCell, cell

_DECADES = 20  # a range whose ends are that many times apart is drawn in powers


@dataclass(frozen=True)
class Place:
    """A point of the space and what came of it."""

    point: Mapping[str, Any]
    value: float | None  # None: it diverged, or has not ended
    status: str

    def label(self, measure: Measure) -> str:
        settings = "\n".join(f"{short(key)} = {word(value)}" for key, value in self.point.items())
        return f"{settings}\n{measure.label}: {measure.text(self.value) if self.value is not None else self.status}"


def heat_map(places: Sequence[Place], axes: Mapping[str, Sequence[Any]], measure: Measure) -> HeatMap:
    """Over the keys that vary; the best over those that are not shown."""
    varying = [key for key, values in axes.items() if len(values) > 1] or list(axes)[:1]
    return HeatMap(
        title=f"Final {measure.label} over the grid",
        note="A cell is the mean over seeds, and the best over keys that are not shown." if len(varying) > 2 else "",
        keys=[{"label": short(key), "values": [word(value) for value in axes[key]]} for key in varying],
        points=[
            {
                "at": [list(axes[key]).index(place.point[key]) for key in varying],
                "value": place.value,
                "text": measure.text(place.value) if place.value is not None else place.status,
                "label": place.label(measure),
            }
            for place in places
        ],
        measure=measure.label,
        higher=measure.higher_is_better,
    )


def parallel(places: Sequence[Place], keys: Sequence[str], measure: Measure) -> Parallel:
    """An axis for every key and one for what runs are judged by, the best on top."""
    scales = {key: _Scale.of([place.point[key] for place in places]) for key in keys}
    scored = [measure.score(place.value) for place in places if place.value is not None]
    low, high = min(scored, default=0.0), max(scored, default=1.0)

    def good(place: Place) -> float | None:
        if place.value is None:
            return None
        return (measure.score(place.value) - low) / (high - low) if high > low else 1.0

    worst_first = sorted(places, key=lambda place: -math.inf if place.value is None else measure.score(place.value))
    ends = [(0.0, low), (1.0, high)] if high > low else [(1.0, high)] if scored else []
    judged = {
        "label": measure.label,
        "ticks": [(place, measure.text(measure.score(end), 3)) for place, end in ends],
    }
    return Parallel(
        title="Settings and results",
        note="Each line is a setting: the stronger its colour, the better. Dashed lines diverged.",
        axes=[*({"label": short(key), "ticks": scale.ticks()} for key, scale in scales.items()), judged],
        lines=[
            {
                "at": [*(scale.place(place.point[key]) for key, scale in scales.items()), good(place)],
                "good": good(place),
                "label": place.label(measure),
            }
            for place in worst_first
        ],
    )


@dataclass(frozen=True)
class _Scale:
    """Where values lie on an axis: numbers by their size (or its logarithm), words evenly."""

    values: Sequence[Any]
    by_size: bool
    logarithmic: bool = False

    @classmethod
    def of(cls, values: Sequence[Any]) -> "_Scale":
        distinct = list({json.dumps(value): value for value in values}.values())
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in distinct):
            return cls(sorted(distinct, key=_numbers_first), by_size=False)
        ordered = sorted(distinct)
        return cls(ordered, by_size=True, logarithmic=ordered[0] > 0 and ordered[-1] >= _DECADES * ordered[0])

    def place(self, value: Any) -> float:
        if not self.by_size:
            return self.values.index(value) / max(len(self.values) - 1, 1)
        size = math.log if self.logarithmic else float
        low, high = size(self.values[0]), size(self.values[-1])
        return (size(value) - low) / (high - low) if high > low else 0.5

    def ticks(self) -> list[tuple[float, str]]:
        """Every value; the page leaves out those that would cover others."""
        return [(self.place(value), word(value)) for value in self.values]


def _numbers_first(value: Any) -> tuple[bool, float]:
    """Numbers by their size, then words in the order given."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return not number, value if number else 0.0


def short(key: str) -> str:
    """A key without its section."""
    return key.removeprefix("algorithm.")


def setting_cell(value: Any) -> TableCell:
    """A setting in a table, numbers to be sorted by their size."""
    return cell(value if isinstance(value, int | float) and not isinstance(value, bool) else word(value))


def word(value: Any) -> str:
    """A setting as it reads on a page."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value)
