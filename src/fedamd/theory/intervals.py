"""Estimates with confidence intervals: means of samples drawn without replacement, and the largest of several means."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

from torch import Tensor


@dataclass(frozen=True)
class Estimate:
    """A constant, the interval that holds it with the confidence asked for, and what finding it cost."""

    value: float
    low: float
    high: float
    samples_used: int

    def root(self) -> "Estimate":
        """The estimate of the square root."""
        value, low, high = (math.sqrt(max(0.0, bound)) for bound in (self.value, self.low, self.high))
        return Estimate(value, low, high, self.samples_used)


class Mean(NamedTuple):
    """A mean with the standard error that sampling leaves in it; no error where all of the population was seen."""

    value: float
    error: float
    freedom: int  # degrees of freedom of the error

    def interval(self, confidence: float) -> tuple[float, float]:
        margin = 0.0 if self.error == 0 else student_quantile((1 + confidence) / 2, self.freedom) * self.error
        return self.value - margin, self.value + margin


def mean_of(values: Tensor, population: int) -> Mean:
    """The population's mean, from `values` drawn from it without replacement (finite-population correction)."""
    count = len(values)
    value = float(values.double().mean())
    if count >= population:
        return Mean(value, 0.0, max(1, count - 1))
    spread = float(values.double().std()) if count > 1 else math.inf
    return Mean(value, spread * math.sqrt((1 - count / population) / count), max(1, count - 1))


def mean_over_clients(parts: list[Mean], clients: int) -> Mean:
    """(1/M)·Σ_m of one mean per client, from some or all of M: their own errors, and that of drawing clients."""
    count = len(parts)
    value = math.fsum(part.value for part in parts) / count
    within = math.fsum(part.error**2 for part in parts) / count**2
    if count >= clients:
        return Mean(value, math.sqrt(within), sum(part.freedom for part in parts))
    between = math.fsum((part.value - value) ** 2 for part in parts) / (count - 1) if count > 1 else math.inf
    return Mean(value, math.sqrt((1 - count / clients) * between / count + within), max(1, count - 1))


def largest(parts: list[tuple[Mean, float]], confidence: float, samples_used: int) -> Estimate:
    """The maximum over clients. Each part is a mean and how much further the truth may lie for other reasons.

    All intervals hold together with the given confidence (Bonferroni), so the maximum lies between the largest lower
    end and the largest upper end.
    """
    each = 1 - (1 - confidence) / len(parts)
    ends = [(mean.interval(each), slack) for mean, slack in parts]
    return Estimate(
        max(mean.value for mean, _ in parts),
        max(low - slack for (low, _), slack in ends),
        max(high + slack for (_, high), slack in ends),
        samples_used,
    )


def student_quantile(probability: float, freedom: int) -> float:
    """Student's t quantile: exact for 1 and 2 degrees of freedom, else the Cornish–Fisher series about the normal one.

    The series' relative error is below 1 % at 3 degrees of freedom for 95 % intervals, and falls quickly with more.
    """
    if freedom == 1:
        return math.tan(math.pi * (probability - 0.5))
    if freedom == 2:
        a = 2 * probability - 1
        return a * math.sqrt(2 / (1 - a * a))
    z, v = NormalDist().inv_cdf(probability), float(freedom)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / v**power for power, term in enumerate(terms, start=1))
