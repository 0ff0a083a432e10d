"""Curves: what was measured against what it cost, runs that differ only in their seed drawn as one."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fedamd.report.stored import StoredRun
from fedamd.runs.labels import labels
from fedamd.runs.records import Record

GRADIENT_UNIT, BIT_UNIT = 1e5, 32e6  # the paper's


@dataclass(frozen=True)
class Axis:
    """What a curve is drawn against."""

    label: str
    name: str  # on a button
    place: Callable[[Record], float | None]  # of a round; None where it was not counted
    unit: Literal["number", "bytes"] = "number"


AXES = {
    "rounds": Axis("communication rounds", "rounds", lambda record: record.round + 1.0),
    "gradients": Axis("gradient samples", "gradients", lambda record: float(record.gradient_samples)),
    "traffic": Axis("sent up and down", "traffic", lambda record: record.bits / 8, "bytes"),
    "time": Axis("simulated seconds", "time", lambda record: record.costs.get("simulated_seconds")),
    "paper_gradients": Axis("gradient samples (×10⁵)", "gradients", lambda r: r.gradient_samples / GRADIENT_UNIT),
    "paper_bits": Axis("bits up and down (×32 Mbit)", "bits", lambda record: record.bits / BIT_UNIT),
}
USUAL = ("rounds", "gradients", "traffic", "time")
PAPER = ("rounds", "paper_gradients", "paper_bits")
MEASURES = {
    "accuracy": "test accuracy",
    "test_loss": "test loss",
    "loss": "training loss",
}  # others by their names


@dataclass(frozen=True)
class Point:
    """A round: the mean over the seeds, and the smallest and the largest."""

    x: dict[str, float]  # of every axis that was counted
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Curve:
    """One method's runs, however many seeds there are."""

    label: str
    seeds: tuple[int, ...]
    diverged: int  # how many of the runs did
    points: dict[str, list[Point]]  # of every measure that was measured

    @property
    def title(self) -> str:
        """The label, and what a reader must not overlook."""
        if not self.diverged:
            return self.label
        return f"{self.label} (diverged)" if len(self.seeds) == 1 else f"{self.label} ({self.diverged} diverged)"


def thinned(curve: Curve, every: int) -> Curve:
    """One in so many points of each measure, the last one among them."""
    return replace(curve, points={measure: line[::-1][::every][::-1] for measure, line in curve.points.items()})


def draw_curves(runs: Sequence[StoredRun]) -> list[Curve]:
    """A curve for every group of runs, in the order in which the groups first appear."""
    return [_curve(label, members) for label, members in groups(runs).items()]


def by_settings(curves: Sequence[Curve]) -> list[Curve]:
    """Curves of one method, named by the settings in which they differ."""
    return [replace(curve, label=curve.label.partition(" ")[2] or curve.label) for curve in curves]


def groups(runs: Sequence[StoredRun]) -> dict[str, list[StoredRun]]:
    """The runs by label: those that differ in their seed, and in nothing else, are together."""
    together: dict[str, list[StoredRun]] = {}
    for label, run in zip(labels([run.config for run in runs]), runs, strict=True):
        numbered = itertools.chain([label], (f"{label} #{number}" for number in itertools.count(2)))
        free = next(name for name in numbered if _has_no(run.config.seed, together.get(name, [])))
        together.setdefault(free, []).append(run)
    return together


def known_measures(curves: Sequence[Curve]) -> dict[str, str]:
    """Everything that is measured in one of them, and how it is called."""
    names = dict.fromkeys(name for curve in curves for name in curve.points)
    known = [name for name in MEASURES if name in names]
    return {name: MEASURES.get(name, name) for name in (*known, *(name for name in names if name not in known))}


def known_axes(curves: Sequence[Curve], wanted: Sequence[str] = USUAL) -> list[str]:
    """Those of the wanted ones on which some curve has a place."""
    points = [point for curve in curves for line in curve.points.values() for point in line]
    return [axis for axis in wanted if any(axis in point.x for point in points)]


def _has_no(seed: int, runs: Sequence[StoredRun]) -> bool:
    return all(run.config.seed != seed for run in runs)


def position(record: Record) -> dict[str, float]:
    """Where a record stands on every axis. The start-up stands at 0: its costs are in no total."""
    places = {name: axis.place(record) for name, axis in AXES.items()}
    return {name: 0.0 if record.round < 0 else place for name, place in places.items() if place is not None}


def measured_points(runs: Sequence[Sequence[Record]]) -> dict[str, list[Point]]:
    """The points of every measure that was measured, from the records of runs with different seeds."""
    names = dict.fromkeys([*MEASURES, *(name for records in runs for record in records for name in record.metrics)])
    points = {measure: _points(runs, measure) for measure in names}
    return {measure: line for measure, line in points.items() if line}


def _curve(label: str, runs: Sequence[StoredRun]) -> Curve:
    return Curve(
        label,
        tuple(run.config.seed for run in runs),
        sum(run.status == "diverged" for run in runs),
        measured_points([run.records for run in runs]),
    )


def _points(runs: Sequence[Sequence[Record]], measure: str) -> list[Point]:
    """The rounds in which every one of the runs measured it: a mean over changing runs would jump."""
    measured = [{record.round: record for record in run if record.measured(measure) is not None} for run in runs]
    shared = sorted(set.intersection(*(set(rounds) for rounds in measured)))
    return [_point([rounds[t] for rounds in measured], measure) for t in shared]


def _point(records: Sequence[Record], measure: str) -> Point:
    values = [value for record in records if (value := record.measured(measure)) is not None]
    places = [position(record) for record in records]
    counted = [axis for axis in places[0] if all(axis in place for place in places)]
    x = {axis: sum(place[axis] for place in places) / len(places) for axis in counted}
    return Point(x, sum(values) / len(values), min(values), max(values))
