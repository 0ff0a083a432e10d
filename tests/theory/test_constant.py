"""Theorem 4.8 and Corollary 4.9 against exact evaluation of the printed formulas."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Rational, sqrt

from fedamd.theory import constant
from fedamd.theory.problem import Problem

POINTS = [(100, 20, Rational(1, 2)), (100, 100, Rational(9, 10)), (7, 1, Rational(1, 3)), (1000, 3, Rational(1, 100))]


@pytest.mark.parametrize(("M", "A", "p"), POINTS)
def test_rates(M: int, A: int, p: Rational, make_problem: Callable[..., Problem]) -> None:
    eta_l, eta_s = constant.rates(make_problem(M=M, A=A, p=float(p)))
    assert eta_l == pytest.approx(float(1 / (2 * sqrt(6) * 10 * 2)))
    assert eta_s == pytest.approx(float(2 * sqrt(6) / (1 + 2 * M / (A * p) * sqrt(1 - p**A))))


@pytest.mark.parametrize(("M", "A", "p"), POINTS)
def test_rounds(M: int, A: int, p: Rational, make_problem: Callable[..., Problem]) -> None:
    """ε/(L·Δ) = 0.01/3."""
    expected = 300 * (1 / (1 - p**A) + Rational(M, A) / (p * sqrt(1 - p**A)))
    assert constant.rounds(make_problem(M=M, A=A, p=float(p))) == pytest.approx(float(expected))


@pytest.mark.parametrize(("M", "A", "p"), POINTS)
def test_bound(M: int, A: int, p: Rational, make_problem: Callable[..., Problem]) -> None:
    """4Δ/(η_s·η_l·K·T·(1 − p^A)) with Δ = 3/2, K = 10, L = 2, T = 50, plus 3·25/(M·b) while b = 40 < n = 600."""
    problem = make_problem(M=M, A=A, p=float(p))
    product = Rational(1, 20) / (1 + 2 * M / (A * p) * sqrt(1 - p**A))
    progress = 6 / (product * 10 * 50 * (1 - p**A))
    assert constant.bound(problem, 50, 40) == pytest.approx(float(progress + Rational(75, 40 * M)))
    assert constant.bound(problem, 50, 600) == pytest.approx(float(progress))


def test_corollary(make_problem: Callable[..., Problem]) -> None:
    """A = 20, M = 100: η_s = 2√6·20/(20 + 300c); T = 5/ε; σ²/ε² + MK/ε = (25/3)·300² + 1000·300."""
    assert constant.optimal_rates(make_problem(c=2.0)).eta_s == pytest.approx(float(2 * sqrt(6) * 20 / 620))
    assert constant.optimal_rounds(make_problem()) == pytest.approx(1500)
    assert constant.optimal_gradients(make_problem()) == pytest.approx(750_000 + 300_000)


@pytest.mark.parametrize(
    ("L_sigma", "b_small", "needed"), [(0.0, 4, 1), (3.0, 4, 2), (20.0, 4, 50), (20.0, 1, 200), (20.0, 200, 1)]
)
def test_least_steps(L_sigma: float, b_small: int, needed: int, make_problem: Callable[..., Problem]) -> None:
    """2·L_σ²/(b'·L²) with L = 2."""
    problem = make_problem(L_sigma=L_sigma, b_small=b_small)
    assert constant.least_steps(problem) == needed
    assert constant.violations(replace(problem, K=needed)) == []


def test_too_few_steps_say_what_would_do(make_problem: Callable[..., Problem]) -> None:
    (reason,) = constant.violations(make_problem(L_sigma=20.0, b_small=4, K=10))
    assert "K ≥ 50" in reason
    assert "b' ≥ 20" in reason
    assert constant.violations(make_problem(L_sigma=20.0, b_small=20, K=10)) == []


@given(M=st.integers(1, 500), share=st.floats(0, 1), c=st.floats(1, 20), epsilon=st.floats(1e-6, 1))
def test_properties(M: int, share: float, c: float, epsilon: float, make_problem: Callable[..., Problem]) -> None:
    """The corollary's simpler η_s is admissible; more clients in a round, and c = 1, never need more rounds."""
    problem = make_problem(M=M, A=max(1, round(share * M)), c=c, epsilon=epsilon)
    assert constant.optimal_rates(problem).eta_s <= constant.rates(problem).eta_s * (1 + 1e-12)
    assert constant.rounds(replace(problem, epsilon=epsilon / 2)) > constant.rounds(problem)
    assert constant.rounds(replace(problem, M=M + 1)) > constant.rounds(problem)
    if M > problem.A:
        more = replace(problem, A=problem.A + 1)
        assert constant.optimal_rounds(more) < constant.optimal_rounds(problem)


@pytest.mark.parametrize("n", [None, 600])
@pytest.mark.parametrize("p", [None, 0.1, 0.99])
def test_proved_rounds_are_the_first_within_epsilon(
    n: int | None, p: float | None, make_problem: Callable[..., Problem]
) -> None:
    problem = make_problem(n=n, p=p)
    proved = constant.proved(problem)
    assert proved is not None
    assert constant.bound(problem, proved.rounds, proved.b) <= problem.epsilon * (1 + 1e-9)
    assert constant.bound(problem, proved.rounds - 1, proved.b) > problem.epsilon


def test_nothing_is_proved_where_noise_stays_above_epsilon(make_problem: Callable[..., Problem]) -> None:
    """3·25/(100·b) = ε = 0.01 at b = 75."""
    assert constant.proved(make_problem(b=75, n=None)) is None
    assert constant.proved(make_problem(b=76, n=None)) is not None


def test_slowdown_is_the_ratio_to_the_optimum(make_problem: Callable[..., Problem]) -> None:
    assert constant.slowdown(make_problem()) == 1.0
    expected = constant.rounds(make_problem(p=0.1)) / constant.rounds(make_problem())
    assert constant.slowdown(make_problem(p=0.1)) == pytest.approx(expected)
    assert expected > 2
