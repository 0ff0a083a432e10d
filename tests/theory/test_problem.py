"""What a problem refuses, its units, and its batch sizes."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fedamd.errors import FedamdError
from fedamd.theory import TABLE1
from fedamd.theory.problem import Problem, whole


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"M": 0}, "M is 0"),
        ({"A": 0}, "A is 0"),
        ({"K": 0}, "K is 0"),
        ({"b_small": 0}, "b_small is 0"),
        ({"A": 101}, "larger than the M = 100"),
        ({"L": 0.0}, "L is 0"),
        ({"L": math.nan}, "L is nan"),
        ({"L_sigma": -1.0}, "L_sigma is -1"),
        ({"mu": 0.0}, "mu is 0"),
        ({"mu": 3.0}, "above L"),
        ({"p": 0.0}, "never refreshes"),
        ({"p": 1.0}, "never moves"),
        ({"p": math.nan}, "p is nan"),
        ({"c": 0.9}, "c is 0.9"),
        ({"tau": 1}, "tau is 1"),
        ({"sigma": -1.0}, "sigma is -1"),
        ({"sigma": math.inf}, "sigma is inf"),
        ({"delta": 0.0}, "delta is 0"),
        ({"epsilon": 0.0}, "epsilon is 0"),
        ({"epsilon": math.nan}, "epsilon is nan"),
        ({"epsilon": 6.0}, "met at x_0"),  # 2·L·Δ = 6
        ({"epsilon": 1.5, "mu": 0.1}, "met at x_0"),  # Δ = 1.5
        ({"epsilon": 1e-80}, "too small"),
        ({"n": 0}, "n is 0"),
        ({"b": 0}, "b is 0"),
        ({"d": 0}, "d is 0"),
        ({"b": 601}, "larger than the n = 600"),
    ],
)
def test_impossible_problems(make_problem: Callable[..., Problem], changes: dict[str, Any], says: str) -> None:
    with pytest.raises(FedamdError, match=says):
        make_problem(**changes)


def test_batches(make_problem: Callable[..., Problem]) -> None:
    """σ²/(Mε) = 25/(100·0.01) = 25; under PL with μ = 0.1, ten times that; at most n = 600, at least b' + 1 = 5."""
    assert make_problem().large_batch == 25
    assert make_problem(mu=0.1).large_batch == 250
    assert make_problem(mu=0.01).large_batch == 600
    assert make_problem(mu=0.01, n=None).large_batch == 2500
    assert make_problem(sigma=0.0).required_batch == 1
    assert make_problem(sigma=0.0).large_batch == 5
    assert make_problem(b=30).large_batch == 30


def test_the_batch_of_a_proof_leaves_half_of_epsilon(make_problem: Callable[..., Problem]) -> None:
    """3·25/(100·b) ≤ 0.005 from b = 150 on; without noise b' + 1 = 5 is enough."""
    assert make_problem(sigma=0.0).proof_batch(3.0) == 5
    problem = make_problem(n=None)
    assert problem.proof_batch(3.0) == 150
    assert 3 * problem.noise_floor(150) == pytest.approx(problem.epsilon / 2)
    assert make_problem(n=120).noise_floor(make_problem(n=120).proof_batch(3.0)) == 0.0


@pytest.mark.parametrize(
    ("method", "mu"),
    [(method, None) for method in TABLE1] + [(method, 0.2) for method in TABLE1 if method.pl],
    ids=lambda value: getattr(value, "key", value),
)
def test_units_do_not_change_a_method(method: Any, mu: float | None, make_problem: Callable[..., Problem]) -> None:
    """F in other units (·3) and x in others (·5): L·3/25, Δ·3, gradients ·3/5; no algorithm would notice."""
    problem = make_problem(mu=mu)
    value, gradient = 3.0, 3.0 / 5.0
    curvature = value / 25
    scaled = replace(
        problem,
        L=problem.L * curvature,
        L_sigma=problem.L_sigma * curvature,
        mu=mu and mu * curvature,
        delta=problem.delta * value,
        sigma=problem.sigma * gradient,
        epsilon=problem.epsilon * (gradient**2 if mu is None else value),
    )
    assert scaled.large_batch == problem.large_batch
    assert method.rounds(scaled) == pytest.approx(method.rounds(problem), rel=1e-9)


def test_epsilon_means_what_the_class_says(make_problem: Callable[..., Problem]) -> None:
    assert make_problem().gradient_epsilon == pytest.approx(0.01 / 3)
    assert make_problem(mu=0.1).value_epsilon == pytest.approx(0.01 / 1.5)
    with pytest.raises(FedamdError, match="leave mu out"):
        _ = make_problem(mu=0.1).gradient_epsilon
    with pytest.raises(FedamdError, match="give mu"):
        _ = make_problem().value_epsilon


@pytest.mark.parametrize(("value", "expected"), [(0.0, 1), (1.0, 1), (2.0000000000001, 2), (2.001, 3)])
def test_whole(value: float, expected: int) -> None:
    assert whole(value) == expected
