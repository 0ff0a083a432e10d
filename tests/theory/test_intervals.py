"""Quantiles against tabulated values, coverage of the intervals by simulation."""

import math

import pytest
import torch
from scipy import stats

from fedamd.theory.intervals import Estimate, Mean, largest, mean_of, mean_over_clients, student_quantile


@pytest.mark.parametrize("freedom", [1, 2, 3, 5, 10, 100, 10**6])
@pytest.mark.parametrize("probability", [0.9, 0.975, 0.995])
def test_student_quantile(freedom: int, probability: float) -> None:
    tolerance = {3: 0.05, 5: 0.01}.get(freedom, 1e-3)
    assert student_quantile(probability, freedom) == pytest.approx(stats.t.ppf(probability, freedom), rel=tolerance)


def test_a_whole_population_has_no_error() -> None:
    assert mean_of(torch.tensor([1.0, 2.0, 6.0]), 3).interval(0.95) == (3.0, 3.0)


def test_error_of_a_mean_by_hand() -> None:
    """Values 1, 3 of a population of 8: deviation √2, so the error is sqrt(2/2·(1 − 2/8)) = sqrt(3)/2."""
    mean = mean_of(torch.tensor([1.0, 3.0]), 8)
    assert mean == pytest.approx((2.0, math.sqrt(3) / 2, 1))
    low, high = mean.interval(0.5)  # t with one degree of freedom has its quartile at 1
    assert (low, high) == pytest.approx((2 - math.sqrt(3) / 2, 2 + math.sqrt(3) / 2))


def test_one_value_of_many_says_nothing() -> None:
    assert mean_of(torch.tensor([1.0]), 8).interval(0.95) == (-math.inf, math.inf)


def test_mean_over_clients_by_hand() -> None:
    """All clients: errors 3 and 4 give 5/2. Two of four clients add (1 − 1/2)·variance/2 = 0.5·8/2 = 2."""
    parts = [Mean(1.0, 3.0, 2), Mean(5.0, 4.0, 3)]
    assert mean_over_clients(parts, 2) == pytest.approx((3.0, 2.5, 5))
    assert mean_over_clients(parts, 4) == pytest.approx((3.0, math.sqrt(6.25 + 2), 1))


def test_largest_takes_the_largest_ends() -> None:
    """Exact means 1 and 2 with slack 3 and 0.5: the maximum may be anything from 1.5 to 4."""
    assert largest([(Mean(1.0, 0.0, 1), 3.0), (Mean(2.0, 0.0, 1), 0.5)], 0.95, 7) == Estimate(2.0, 1.5, 4.0, 7)


def test_root_of_an_interval_below_zero() -> None:
    assert Estimate(4.0, -1.0, 9.0, 3).root() == Estimate(2.0, 0.0, 3.0, 3)


def test_intervals_cover_as_often_as_they_say() -> None:
    """80 % intervals of 12 out of 40: over 2000 draws the share that covers is within 4 % (five standard errors)."""
    generator = torch.Generator().manual_seed(1)
    population = torch.randn(40, generator=generator, dtype=torch.float64)
    truth, hits = float(population.mean()), 0
    for _ in range(2000):
        low, high = mean_of(population[torch.randperm(40, generator=generator)[:12]], 40).interval(0.8)
        hits += low <= truth <= high
    assert hits / 2000 == pytest.approx(0.8, abs=0.045)
