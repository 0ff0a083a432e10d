"""Who stands where: accuracy at equal rounds, gradients and bits, with intervals over seeds, and costs to targets.

At equal gradients (bits) everybody may spend what the reference entrant spends in all its rounds; whoever spends less
in all of its own is taken at the end of them. A start-up pass is charged. An accuracy is the mean of the last ten
evaluations within the budget; a seed that diverged counts as 0, and is shown.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, stdev

from fedamd.studies.leaderboard.board import LeaderboardSetting
from fedamd.studies.leaderboard.store import LAST, Line
from fedamd.studies.paper.store import cumulative

COSTS = ("rounds", "gradients", "bits")
SECONDS = "seconds"  # simulated: to targets only
REFERENCE = "fedavg"
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)  # Student's t, 1 … 10 degrees of freedom


@dataclass(frozen=True)
class RankedRun:
    """One reported run: what each of its evaluations had cost so far, and found."""

    seed: int
    diverged: bool
    spent: Mapping[str, Sequence[float]]
    accuracy: Sequence[float]
    total: Mapping[str, float]  # at the end

    @classmethod
    def of(cls, line: Line) -> "RankedRun":
        sums = cumulative(line["costs"], line["rounds_cost"])
        at = [rounds - 1 for rounds in line["evaluated"]]
        start = dict(zip(("gradients", "bits"), line["start_up"], strict=True))
        spent = {name: [sums[name][t] + start[name] for t in at] for name in start} | {"rounds": line["evaluated"]}
        if SECONDS in line:
            spent[SECONDS] = line[SECONDS]
        total = {name: sums[name][-1] + start[name] if sums[name] else start[name] for name in start}
        diverged = line["status"] == "diverged"
        return cls(line["seed"], diverged, spent, line["accuracy"], total | {"rounds": len(line["rounds_cost"])})

    def within(self, cost: str, budget: float) -> float:
        """The mean of the last ten evaluations that the budget allows."""
        if self.diverged:
            return 0.0
        seen = [value for value, spent in zip(self.accuracy, self.spent[cost], strict=True) if spent <= budget]
        return fmean(seen[-LAST:]) if seen else 0.0

    def until(self, cost: str, target: float) -> float | None:
        """What it had spent when it first reached the target; None if it never did."""
        if cost not in self.spent:
            return None
        reached = (spent for value, spent in zip(self.accuracy, self.spent[cost], strict=True) if value >= target)
        return next(iter(reached), None)


@dataclass(frozen=True)
class Standing:
    """One entrant at one kind of equal cost."""

    label: str
    rank: int
    seeds: tuple[float, ...]  # the accuracy of each
    diverged: int
    tied: bool  # with the first: no seed diverged, and the paired 95 % interval of the difference contains 0
    to_targets: tuple[float | None, ...]  # mean cost; None where a seed never got there
    seconds: tuple[float | None, ...]  # the same in simulated seconds; None where they were not simulated

    @cached_property
    def mean(self) -> float:
        return fmean(self.seeds)

    @cached_property
    def margin(self) -> float:
        """Half of the 95 % interval of the mean."""
        return interval(self.seeds)

    @property
    def worst(self) -> float:
        return min(self.seeds)


def interval(values: Sequence[float]) -> float:
    """Half the width of Student's 95 % interval of the mean; infinite for a single value."""
    if len(values) < 2:
        return math.inf
    freedom = len(values) - 1
    return (_T95[freedom - 1] if freedom <= len(_T95) else 1.96) * stdev(values) / math.sqrt(len(values))


def rank(setting: LeaderboardSetting, reported: Mapping[str, Sequence[Line]]) -> dict[str, list[Standing]]:
    """The standings at equal rounds, gradients and bits, best first."""
    curves = {label: [RankedRun.of(line) for line in lines] for label, lines in reported.items()}
    return {cost: _ranked(setting, cost, curves) for cost in COSTS} if curves else {}


def budget(cost: str, curves: Mapping[str, Sequence[RankedRun]]) -> float:
    """What the reference spends in all its rounds; without it, what the cheapest does."""
    spent = {label: fmean(curve.total[cost] for curve in own) for label, own in curves.items()}
    return spent.get(REFERENCE, min(spent.values()))


def _ranked(setting: LeaderboardSetting, cost: str, curves: Mapping[str, Sequence[RankedRun]]) -> list[Standing]:
    allowed = budget(cost, curves)
    seeds = {label: tuple(curve.within(cost, allowed) for curve in own) for label, own in curves.items()}
    order = sorted(seeds, key=lambda label: -fmean(seeds[label]))
    first = seeds[order[0]]
    return [
        Standing(
            label,
            place,
            seeds[label],
            sum(curve.diverged for curve in curves[label]),
            _tied(first, seeds[label]) and not any(curve.diverged for curve in curves[label]),
            tuple(_mean_until(curves[label], cost, target) for target in setting.targets),
            tuple(_mean_until(curves[label], SECONDS, target) for target in setting.targets),
        )
        for place, label in enumerate(order, start=1)
    ]


def _tied(first: Sequence[float], other: Sequence[float]) -> bool:
    """Both met the same clients and started from the same x_0 on every seed, so differences are taken seed by seed."""
    differences = [a - b for a, b in zip(first, other, strict=True)]
    return fmean(differences) <= interval(differences)


def _mean_until(curves: Sequence[RankedRun], cost: str, target: float) -> float | None:
    reached = [curve.until(cost, target) for curve in curves]
    return fmean(one for one in reached if one is not None) if all(one is not None for one in reached) else None
