"""Hyper-parameters that a config leaves to theory: what a method is told of the problem, and what it answers.

`eta_l = "theory"` asks the method's `by_theory` for a number. "theory-proved" asks for what the proof shows where that
is not what the printed theorem says.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

Version = Literal["printed", "proved"]
WORDS: dict[str, Version] = {"theory": "printed", "theory-proved": "proved"}  # what a config can say


class Smoothness(NamedTuple):
    """The problem's own where it is known, else as estimated at x_0."""

    L: float  # every F_m is L-smooth
    L_sigma: float  # average smoothness of single samples' gradients around ∇F_m
    exact: bool = True


@dataclass(frozen=True)
class KnownProblem:
    """What a method's theory can build on. Smoothness may take long to estimate: it is computed only when asked for."""

    clients: int  # M
    cohort: int  # A
    sizes: Sequence[int]  # n_m
    find_smoothness: Callable[[], Smoothness]
    version: Version = "printed"

    @cached_property
    def smoothness(self) -> Smoothness:
        return self.find_smoothness()


@dataclass(frozen=True)
class TheoryValues:
    """Numbers for the hyper-parameters that were asked for, and a sentence where nothing is proved for the others."""

    values: Mapping[str, float]
    beyond: str | None = None
