"""Cohorts of clients that are always there."""

from collections import Counter

import pytest

from fedamd import draw
from fedamd.algorithms.base import Federation, Turn
from fedamd.draw import Purpose
from fedamd.errors import FedamdError
from fedamd.participation import CyclicSampler, Sampler, UniformSampler, WeightedSampler

ROUNDS = 4000


def shares(sampler: Sampler, count: int, sizes: list[int]) -> list[float]:
    """How often each client took part."""
    taken = Counter(client for t in range(ROUNDS) for client in sampler.cohort(t, 0, count, sizes))
    return [taken[client] / ROUNDS for client in range(len(sizes))]


def test_the_uniform_sampler_draws_what_the_paper_draws() -> None:
    chosen = UniformSampler().cohort(3, 5, 4, [1] * 10)
    assert chosen == draw.sample(10, 4, 5, Purpose.COHORT, 3)
    assert Turn(3, 5, Federation(10, 4, [1] * 10)).cohort == chosen


def test_the_first_of_a_weighted_cohort_is_proportional_to_its_samples() -> None:
    """With A = 1 the probabilities are n_i/n = 0.1, 0.2, 0.3, 0.4; 4000 rounds have a standard error below 0.008."""
    assert shares(WeightedSampler(), 1, [10, 20, 30, 40]) == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.03)


def test_a_weighted_cohort_has_no_client_twice_and_all_where_all_are_asked() -> None:
    assert WeightedSampler().cohort(0, 0, 3, [5, 1, 9]) == (0, 1, 2)


def test_two_of_three_by_weight() -> None:
    """n = 1, 1, 2. P(1 misses) = P(0 then 2) + P(2 then 0) = ¼·⅔ + ½·½ = 5/12, so P(1 takes part) = 7/12 = 0.583."""
    assert shares(WeightedSampler(), 2, [1, 1, 2]) == pytest.approx([7 / 12, 7 / 12, 5 / 6], abs=0.03)


def test_groups_take_turns() -> None:
    """Ten clients in four groups: 0 4 8, 1 5 9, 2 6, 3 7; A = 3 takes whole groups."""
    sampler = CyclicSampler(groups=4)
    assert [sampler.cohort(t, 0, 3, [1] * 10) for t in range(5)] == [(0, 4, 8), (1, 5, 9), (2, 6), (3, 7), (0, 4, 8)]


def test_more_groups_than_clients_are_groups_of_one() -> None:
    assert [CyclicSampler(groups=9).cohort(t, 0, 2, [1] * 2) for t in range(3)] == [(0,), (1,), (0,)]


def test_groups_must_be_a_whole_number() -> None:
    with pytest.raises(FedamdError, match="groups must be a whole number"):
        CyclicSampler(groups=0)


def test_a_turn_takes_its_cohort_from_the_federation() -> None:
    federation = Federation(10, 3, [1] * 10, CyclicSampler(groups=5))
    assert Turn(7, 0, federation).cohort == (2, 7)
