"""Curves: what was measured against what it cost, runs that differ only in their seed drawn as one."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedamd.report.stored import StoredRun
from fedamd.runs.labels import labels
from fedamd.runs.records import Record

AXES = {  # what a curve is drawn against, in the paper's units
    "rounds": "communication rounds",
    "gradients": "gradient samples (×10⁵)",
    "bits": "bits up and down (×32 Mbit)",
}
MEASURES = {"accuracy": "test accuracy", "test_loss": "test loss", "loss": "training loss"}
GRADIENT_UNIT, BIT_UNIT = 1e5, 32e6


@dataclass(frozen=True)
class Point:
    """A round: the mean over the seeds, and the smallest and the largest."""

    x: dict[str, float]  # of every axis
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


def groups(runs: Sequence[StoredRun]) -> dict[str, list[StoredRun]]:
    """The runs by label: those that differ in their seed, and in nothing else, are together."""
    together: dict[str, list[StoredRun]] = {}
    for label, run in zip(labels([run.config for run in runs]), runs, strict=True):
        numbered = itertools.chain([label], (f"{label} #{number}" for number in itertools.count(2)))
        free = next(name for name in numbered if _has_no(run.config.seed, together.get(name, [])))
        together.setdefault(free, []).append(run)
    return together


def _has_no(seed: int, runs: Sequence[StoredRun]) -> bool:
    return all(run.config.seed != seed for run in runs)


def position(record: Record) -> dict[str, float]:
    """Where a record stands on every axis. The start-up stands at 0: its costs are in no total."""
    if record.round < 0:
        return dict.fromkeys(AXES, 0.0)
    return {
        "rounds": record.round + 1.0,
        "gradients": record.gradient_samples / GRADIENT_UNIT,
        "bits": record.bits / BIT_UNIT,
    }


def measured_points(runs: Sequence[Sequence[Record]]) -> dict[str, list[Point]]:
    """The points of every measure that was measured, from the records of runs with different seeds."""
    points = {measure: _points(runs, measure) for measure in MEASURES}
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
    x = {axis: sum(place[axis] for place in places) / len(places) for axis in AXES}
    return Point(x, sum(values) / len(values), min(values), max(values))
