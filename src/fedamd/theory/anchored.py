"""What to set in anchored momentum (`algorithms/anchored.py`), from measured constants. A reckoning, not a theorem.

Noise counts towards the end of a run, so this is about a model that is as good as was asked for: ‖∇F‖² = ε (under the
PL condition F − F* = ε, where ‖∇F‖² ≤ 2Lε). Per round the mean gradient then moves by at most D = L·η_s·η_l·K·‖∇F‖. A
client's cached c_i is as old as a geometric number of rounds with the chance r that a round renews it, so it is off by

    E = σ²/(samples it was made of) + D²·(2 − r)/r²,     r = A/M by miners, p·A/M by anchors.

Corrected with the strength s, a client's gradient is off from the mean by (1 − s)²·ζ² + s²·E, ζ² the heterogeneity; the
best s is ζ²/(ζ² + E), which leaves ζ²·E/(ζ² + E). The mean over n miners, drawn from M without replacement, then has

    V = σ²/(n·K·b') + (M − n)/((M − 1)·n)·ζ²·E/(ζ² + E).

Momentum averages it over about 1/a rounds and lags behind by (1 − a)/a of them: a/(2 − a)·V + ((1 − a)/a)²·D² is what a
makes smallest. p, where there are anchors, makes that error times the gradients of a round smallest.
"""

import math
from dataclasses import dataclass
from typing import Literal

from fedamd.errors import FedamdError
from fedamd.theory.problem import Problem, Rates

Refresh = Literal["miners", "anchors"]
_FINENESS = 400  # values that are tried of a, on a scale that is even in log a, and of p


@dataclass(frozen=True)
class AnchoredAdvice:
    """Settings, and the mean squared error of the direction that they are reckoned to have."""

    refresh: Refresh
    a: float
    s: float
    p: float | None  # None where miners renew the cache
    error: float
    gradients: float  # samples a round


def advise(problem: Problem, heterogeneity: float, rates: Rates) -> AnchoredAdvice:
    """The settings whose error times gradients a round is smallest; ζ² is `Estimates.heterogeneity`."""
    if heterogeneity < 0:
        raise FedamdError(f"heterogeneity is {heterogeneity}: it is a mean of squares, give 0 or more")
    by_anchors = [with_refresh(problem, heterogeneity, rates, i / _FINENESS) for i in range(1, _FINENESS)]
    ways = [with_refresh(problem, heterogeneity, rates), *by_anchors]
    return min(ways, key=lambda one: one.error * one.gradients)


def with_refresh(problem: Problem, heterogeneity: float, rates: Rates, p: float | None = None) -> AnchoredAdvice:
    """The best a and s where anchors renew the cache with probability p, or miners do."""
    moved = drift(problem, rates)
    path = problem.K * problem.b_small
    large = problem.b or problem.n or path
    n = problem.A * (1 - (p or 0.0))
    renewed = problem.A / problem.M * (1 if p is None else p)
    cache = problem.sigma**2 / (path if p is None else large) + moved**2 * (2 - renewed) / renewed**2
    s = heterogeneity / (heterogeneity + cache) if heterogeneity else 0.0
    others = max(problem.M - n, 0.0) / (max(problem.M - 1, 1) * n)
    noise = problem.sigma**2 / (n * path) + others * s * cache
    a = best_momentum(noise, moved)
    gradients = n * path + (problem.A - n) * large
    return AnchoredAdvice("miners" if p is None else "anchors", a, s, p, momentum_error(a, noise, moved), gradients)


def drift(problem: Problem, rates: Rates) -> float:
    """D: how far the mean gradient moves in a round at the accuracy asked for, at the most."""
    slope = math.sqrt(problem.epsilon if problem.mu is None else 2 * problem.L * problem.epsilon)
    return problem.L * rates.eta_s * rates.eta_l * problem.K * slope


def best_momentum(noise: float, moved: float) -> float:
    """The a that makes `momentum_error` smallest: one without noise, ever smaller the more of it there is."""
    tried = [10 ** (-4 * i / _FINENESS) for i in range(_FINENESS + 1)]
    return min(tried, key=lambda a: momentum_error(a, noise, moved))


def momentum_error(a: float, noise: float, moved: float) -> float:
    """Of m ← a·e + (1 − a)·m, where e has the variance `noise` and what it estimates moves by `moved` a round."""
    return a / (2 - a) * noise + ((1 - a) / a) ** 2 * moved**2
