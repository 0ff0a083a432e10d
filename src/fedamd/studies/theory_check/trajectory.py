"""Runs in lockstep on a problem, and what their models say: ‖∇F(x_t)‖², F(x_t) − F*, rounds to ε."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from fedamd.engines import make_engine
from fedamd.runs.config import load_config
from fedamd.runs.experiment import build_experiment
from fedamd.runs.records import Record
from fedamd.runs.run import Run
from fedamd.runs.session import Session, as_sinks
from fedamd.studies.theory_check.problems import SyntheticProblem
from fedamd.theory.intervals import student_quantile

Progress = Callable[[float], None]  # the share of the work that is done
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Arm:
    """A method with its settings, and for how many rounds to watch it."""

    algorithm: tuple[tuple[str, Any], ...]  # the [algorithm] section of a config
    cohort: int
    rounds: int

    @classmethod
    def of(cls, cohort: int, rounds: int, **algorithm: Any) -> "Arm":
        return cls(tuple(sorted(algorithm.items())), cohort, rounds)


@dataclass(frozen=True)
class SeedCurves:
    """Of one arm, a row for each seed and a column for each t = 0 … T; not a number from divergence on."""

    gradient: Tensor  # ‖∇F(x_t)‖²
    gap: Tensor  # F(x_t) − F*


@dataclass(frozen=True)
class RoundsToAccuracy:
    """Rounds to an accuracy: the mean over seeds and its interval; `value` is None where a seed did not get there."""

    value: float | None
    low: float | None = None
    high: float | None = None


def watch(
    problem: SyntheticProblem, arms: Sequence[Arm], seeds: int, progress: Progress = lambda _: None
) -> dict[Arm, SeedCurves]:
    """Run every arm with every seed, all of them in one lockstep."""
    chosen = list(dict.fromkeys(arms))
    runs = [_run(problem, arm, seed) for arm in chosen for seed in range(seeds)]
    models: defaultdict[int, list[Tensor]] = defaultdict(list)
    total, done = sum(arm.rounds for arm in chosen) * seeds, 0

    def heard(run: Run, record: Record) -> None:
        nonlocal done
        models[id(run)].append(run.state.x)
        done += record.round >= 0
        if done % 100 == 0:
            progress(done / total)

    first = runs[0].experiment
    Session(runs, make_engine("vector", "autograd", first.model, first.dataset), as_sinks(heard)).run()
    paths = [models[id(run)] for run in runs]
    return {
        arm: _curves(problem, paths[index * seeds : (index + 1) * seeds], arm.rounds)
        for index, arm in enumerate(chosen)
    }


def rounds_to(values: Tensor, epsilon: float) -> RoundsToAccuracy:
    """The first t at which a row of `values` is at most ε: the mean over the rows."""
    reached = values <= epsilon
    if not bool(reached.any(1).all()):
        return RoundsToAccuracy(None)
    first = [float(t) for t in reached.to(torch.int8).argmax(1)]
    mean = fmean(first)
    if len(first) < 2:
        return RoundsToAccuracy(mean, mean, mean)
    margin = student_quantile((1 + CONFIDENCE) / 2, len(first) - 1) * stdev(first) / math.sqrt(len(first))
    return RoundsToAccuracy(mean, mean - margin, mean + margin)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the least-squares line through the points."""
    centre = fmean(x)
    return math.fsum((a - centre) * b for a, b in zip(x, y, strict=True)) / math.fsum((a - centre) ** 2 for a in x)


def _run(problem: SyntheticProblem, arm: Arm, seed: int) -> Run:
    plain: Mapping[str, Any] = {
        "algorithm": dict(arm.algorithm),
        "clients": problem.clients,
        "cohort": arm.cohort,
        "rounds": arm.rounds,
        "evaluate_every": arm.rounds,
        "seed": seed,
        "dtype": "float64",
    }
    return Run(build_experiment(load_config(plain), dataset=problem.dataset, model=problem.model))


def _curves(problem: SyntheticProblem, paths: Sequence[Sequence[Tensor]], rounds: int) -> SeedCurves:
    """From the models of each seed; a run that diverged has fewer of them."""
    lengths = [len(path) for path in paths]
    F, gradient = problem.at(torch.cat([torch.stack(list(path)) for path in paths]))
    curves = torch.full((2, len(paths), rounds + 1), math.nan, dtype=torch.float64)
    for row, (values, squares) in enumerate(zip(torch.split(F, lengths), torch.split(gradient, lengths), strict=True)):
        curves[0, row, : len(values)], curves[1, row, : len(squares)] = squares, values - problem.minimum
    return SeedCurves(curves[0], curves[1])
