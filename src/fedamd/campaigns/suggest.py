"""Where to look next: Optuna's sampler, asked in batches, whose answers depend on what is told and nothing else.

The sampler of every batch is made anew, seeded by the tuning's seed and the batch's number, and told all trials before
it: so a tuning that is continued asks for what it would have asked for, and no database of Optuna's has to be kept.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedamd.algorithms.space import Choice, Linear, Log, Range
from fedamd.errors import FedamdError

Point = dict[str, Any]
ENOUGH = 10  # trials, to say which keys matter
DIGITS = 4  # of a suggested number: nobody tunes the fifth


@dataclass(frozen=True)
class Told:
    """A trial that has ended: where it was, how it scored (None: it diverged), and whether it was stopped early."""

    point: Point
    score: float | None
    stopped: bool


class Suggester:
    """Suggests points of a space; larger scores are better."""

    def __init__(self, space: Mapping[str, Range], first: Point, seed: int) -> None:
        self._optuna = _optuna()
        self._space = {key: self._distribution(where) for key, where in space.items()}
        self._first, self._seed = first, seed

    def batch(self, number: int, count: int, told: Sequence[Told]) -> list[Point]:
        """So many points: in the first batch the published one is among them."""
        study = self._study(number, told)
        if number == 0 and self._first:
            study.enqueue_trial(self._first)
        return [_rounded(study.ask(self._space).params) for _ in range(count)]

    def importance(self, told: Sequence[Told]) -> dict[str, float]:
        """How much of the scores each key explains, by PED-ANOVA; empty where there are too few to say."""
        scored = [one for one in told if one.score is not None]
        if len(scored) < ENOUGH:
            return {}
        evaluator = self._optuna.importance.PedAnovaImportanceEvaluator()
        with warnings.catch_warnings():  # that it is an experimental feature of Optuna's
            warnings.simplefilter("ignore")
            study = self._study(0, scored)
            return dict(self._optuna.importance.get_param_importances(study, evaluator=evaluator))

    def _study(self, number: int, told: Sequence[Told]) -> Any:
        optuna = self._optuna
        sampler = optuna.samplers.TPESampler(
            seed=(self._seed * 1000 + number) % 2**32, multivariate=True, constant_liar=True, n_startup_trials=10
        )
        study = optuna.create_study(direction="maximize", sampler=sampler)
        worst = min((one.score for one in told if one.score is not None), default=0.0) - 1.0
        for one in told:
            study.add_trial(
                optuna.trial.create_trial(
                    params=one.point,
                    distributions=self._space,
                    value=worst if one.score is None else one.score,  # where it diverged, do not look again
                )
            )
        return study

    def _distribution(self, where: Range) -> Any:
        kinds = self._optuna.distributions
        if isinstance(where, Choice):
            return kinds.CategoricalDistribution(where.values)
        return kinds.FloatDistribution(where.low, where.high, log=isinstance(where, Log))


def parse_range(text: str) -> tuple[str, Range]:
    """`KEY=log:0.001:1`, `KEY=linear:0:1` or `KEY=choice:a,b` from the command line."""
    key, _, rest = text.partition("=")
    kind, _, values = rest.partition(":")
    try:
        if kind == "choice" and values:
            return key, Choice(tuple(_value(one) for one in values.split(",")))
        low, high = map(float, values.split(":"))
        if kind in ("log", "linear") and (0 if kind == "log" else low - 1) < low < high:
            return key, Log(low, high) if kind == "log" else Linear(low, high)
    except ValueError:
        pass
    raise FedamdError(
        f"--search {text}: should be KEY=log:LOW:HIGH, KEY=linear:LOW:HIGH or KEY=choice:A,B, "
        "as in algorithm.eta_l=log:0.003:0.3"
    )


def _value(text: str) -> float | str:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text


def _rounded(point: Mapping[str, Any]) -> Point:
    return {key: float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value for key, value in point.items()}


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise FedamdError("tuning needs Optuna, which is not installed: pip install fedamd[tune]") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
