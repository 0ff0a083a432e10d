"""Hyper-parameters that change with the round: η_l, η_s, p, K and batch sizes, by a factor on their own value.

In round t a scheduled hyper-parameter is its value in [algorithm] times the schedule's factor at t; whole numbers
(K, b', b) are rounded, and are at least 1. A schedule is any function t → factor; those here can be named in a config:

    [schedules]
    eta_l = {name = "exponential", rate = 0.998}
    eta_s = {name = "cosine", rounds = 400, warm_up = 10}
    steps = "my_module:fewer_steps"

A schedule depends on t alone, never on how many rounds a run is to have, so a run may be prolonged.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from fedamd.algorithms.base import Algorithm
from fedamd.algorithms.checks import between, not_negative, positive, whole
from fedamd.errors import FedamdError, at_work
from fedamd.registry import Registry

Factor = Callable[[int], float]  # t → what the hyper-parameter's own value is multiplied by


@dataclass(frozen=True, kw_only=True)
class RoundSchedule(ABC):
    """A factor by round, after `warm_up` rounds in which it grows evenly to its first value."""

    warm_up: int = 0  # rounds in which it grows to its first value

    def __post_init__(self) -> None:
        not_negative(self, "warm_up")

    def __call__(self, t: int) -> float:
        if t < self.warm_up:
            return self.factor(0) * (t + 1) / (self.warm_up + 1)
        return self.factor(t - self.warm_up)

    @abstractmethod
    def factor(self, t: int) -> float:
        """The factor t rounds after the warm-up."""


@dataclass(frozen=True, kw_only=True)
class Constant(RoundSchedule):
    """1 after the warm-up."""

    def factor(self, t: int) -> float:  # noqa: ARG002  it does not change
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Step(RoundSchedule):
    """`drop` times what it was, every `every` rounds."""

    every: int = 100  # rounds between two drops
    drop: float = 0.1  # what is multiplied by then

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self, "every")
        positive(self, "drop")

    def factor(self, t: int) -> float:
        return self.drop ** (t // self.every)


@dataclass(frozen=True, kw_only=True)
class Cosine(RoundSchedule):
    """From 1 down to `final` along half a cosine of `rounds` rounds, and `final` from then on.

    Loshchilov & Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR 2017, without restarts.
    """

    rounds: int = 100  # until the final factor is reached
    final: float = 0.01  # the factor from then on

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self, "rounds")
        positive(self, "final")

    def factor(self, t: int) -> float:
        way = min(t / self.rounds, 1.0)
        return self.final + (1 - self.final) * 0.5 * (1 + math.cos(math.pi * way))


@dataclass(frozen=True, kw_only=True)
class Exponential(RoundSchedule):
    """`rate`^t; 0.998 a round is common in federated learning."""

    rate: float = 0.998  # the factor from one round to the next

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "rate")
        between(self, 0, 1, "rate")

    def factor(self, t: int) -> float:
        return self.rate**t


ROUND_SCHEDULES: Registry[type[RoundSchedule]] = Registry(
    "schedule", {"constant": Constant, "step": Step, "cosine": Cosine, "exponential": Exponential}
)


def at_round(algorithm: Algorithm, schedules: Mapping[str, Factor], t: int) -> Algorithm:
    """The method with the hyper-parameters of round t."""
    if not schedules:
        return algorithm
    values = {name: _value(name, getattr(algorithm, name), factor, t) for name, factor in schedules.items()}
    return replace(algorithm, **values)  # type: ignore[type-var]


def check_scheduled(algorithm: Algorithm, schedules: Mapping[str, Factor]) -> None:
    """Refuse a schedule for what the method does not have, or for what is no number."""
    for name in schedules:
        if not hasattr(algorithm, name):
            raise FedamdError(f"schedules.{name}: {type(algorithm).__name__} has no such hyper-parameter")
        value = getattr(algorithm, name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise FedamdError(
                f"schedules.{name}: {type(algorithm).__name__} has {name} = {value!r}: only numbers can be scheduled"
            )
    at_round(algorithm, schedules, 0)


def _value(name: str, base: float, factor: Factor, t: int) -> float:
    with at_work(f"schedules.{name} failed in round {t}"):
        scale = float(factor(t))
    if not (math.isfinite(scale) and scale > 0):
        raise FedamdError(f"schedules.{name} gave {scale} for round {t}: a factor is a finite number above 0")
    return max(1, round(base * scale)) if isinstance(base, int) else base * scale
