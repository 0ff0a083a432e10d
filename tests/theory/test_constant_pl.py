"""Theorem 4.11 and Corollary 4.12 against exact evaluation of the printed formulas."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Min, Rational, log, sqrt

from fedamd.errors import FedamdError
from fedamd.theory import constant_pl
from fedamd.theory.problem import Problem

POINTS = [
    (100, 20, Rational(1, 2), Rational(1, 10)),
    (100, 100, Rational(9, 10), Rational(2)),
    (7, 1, Rational(1, 3), Rational(1, 1000)),
    (1000, 3, Rational(1, 100), Rational(1, 2)),
]


@pytest.mark.parametrize(("M", "A", "p", "mu"), POINTS)
def test_rates(M: int, A: int, p: Rational, mu: Rational, make_problem: Callable[..., Problem]) -> None:
    """L = 2."""
    eta_l, eta_s = constant_pl.rates(make_problem(M=M, A=A, p=float(p), mu=float(mu)))
    first = 2 * sqrt(6) * 2 * A * p / (M * mu * (1 - p**A))
    second = 2 * sqrt(6) / (1 + 16 * M * 2 / (mu * A * p))
    assert eta_l == pytest.approx(float(1 / (2 * sqrt(6) * 20)))
    assert eta_s == pytest.approx(float(Min(first, second)))


@pytest.mark.parametrize(("M", "A", "p", "mu"), POINTS)
def test_rounds(M: int, A: int, p: Rational, mu: Rational, make_problem: Callable[..., Problem]) -> None:
    """In units of L = Δ = 1: μ is mu/2, 1/ε is 1.5/0.01 = 150."""
    m, moves = mu / 2, 1 - p**A
    expected = (1 + M / (m * A * p) + M * m * moves / (A * p)) / (m * moves) * log(150)
    assert constant_pl.rounds(make_problem(M=M, A=A, p=float(p), mu=float(mu))) == pytest.approx(float(expected))


@pytest.mark.parametrize(("M", "A", "p", "mu"), POINTS)
def test_bound(M: int, A: int, p: Rational, mu: Rational, make_problem: Callable[..., Problem]) -> None:
    """T = 9, Δ = 3/2, and (6/μ)·25/(M·40) while b = 40 < n = 600."""
    problem = make_problem(M=M, A=A, p=float(p), mu=float(mu))
    product = Min(A * p / (M * 10 * mu * (1 - p**A)), 1 / (20 * (1 + 16 * M * 2 / (mu * A * p))))
    progress = (1 - mu * 10 * (1 - p**A) * product / 2) ** 9 * Rational(3, 2)
    assert constant_pl.bound(problem, 9, 40) == pytest.approx(float(progress + 150 / (mu * 40 * M)))
    assert constant_pl.bound(problem, 9, 600) == pytest.approx(float(progress))


def test_corollary(make_problem: Callable[..., Problem]) -> None:
    """M/A = 5, μ/L = 1/2: (2 + 20 + 5)·log 150 rounds; A·rounds·(σ²/(Mμε) + K) = A·rounds·(25 + 10) samples.

    η_s = min(√6·2/(5·1·c), 2√6/(1 + 32·5·c·2)) with c = 1.
    """
    problem = make_problem(mu=1.0)
    rounds = float(27 * log(150))
    assert constant_pl.optimal_rounds(problem) == pytest.approx(rounds)
    assert constant_pl.optimal_gradients(problem) == pytest.approx(20 * rounds * 35)
    assert constant_pl.optimal_rates(problem).eta_s == pytest.approx(float(2 * sqrt(6) / 321))


def test_corollary_when_the_cache_is_the_bottleneck(make_problem: Callable[..., Problem]) -> None:
    """√6/(r·μ) < 2√6/(1 + 32r/μ) never holds for μ ≤ 1 ≤ r = Mc/A: 1 + 32r/μ > 2rμ. The second term always decides."""
    for M, A, mu in ((100, 1, 2.0), (5, 5, 2.0), (100, 100, 0.01)):
        ratio, m = M / A, mu / 2
        expected = 2 * 6**0.5 / (1 + 32 * ratio / m)
        assert constant_pl.optimal_rates(make_problem(M=M, A=A, mu=mu)).eta_s == pytest.approx(expected)


@given(
    M=st.integers(1, 500), share=st.floats(0, 1), c=st.floats(1, 20), mu=st.floats(1e-4, 2), epsilon=st.floats(1e-6, 1)
)
def test_properties(
    M: int, share: float, c: float, mu: float, epsilon: float, make_problem: Callable[..., Problem]
) -> None:
    """The corollary's η_s is admissible; more accuracy, more clients and a worse condition need more rounds."""
    problem = make_problem(M=M, A=max(1, round(share * M)), c=c, mu=mu, epsilon=epsilon)
    assert constant_pl.optimal_rates(problem).eta_s <= constant_pl.rates(problem).eta_s * (1 + 1e-12)
    assert constant_pl.rounds(replace(problem, epsilon=epsilon / 2)) > constant_pl.rounds(problem)
    assert constant_pl.optimal_rounds(replace(problem, M=M + 1)) > constant_pl.optimal_rounds(problem)
    assert constant_pl.optimal_rounds(replace(problem, M=problem.A)) <= constant_pl.optimal_rounds(problem)


@pytest.mark.parametrize("n", [None, 600])
@pytest.mark.parametrize("p", [None, 0.1])
def test_proved_rounds_are_the_first_within_epsilon(
    n: int | None, p: float | None, make_problem: Callable[..., Problem]
) -> None:
    problem = make_problem(mu=0.5, n=n, p=p)
    proved = constant_pl.proved(problem)
    assert proved is not None
    assert constant_pl.bound(problem, proved.rounds, proved.b) <= problem.epsilon * (1 + 1e-9)
    assert constant_pl.bound(problem, proved.rounds - 1, proved.b) > problem.epsilon


def test_nothing_is_proved_where_noise_stays_above_epsilon(make_problem: Callable[..., Problem]) -> None:
    """(6/0.5)·25/(100·b) = ε = 0.01 at b = 300."""
    assert constant_pl.proved(make_problem(mu=0.5, b=300, n=None)) is None
    assert constant_pl.proved(make_problem(mu=0.5, b=301, n=None)) is not None


def test_mu_is_needed(make_problem: Callable[..., Problem]) -> None:
    for function in (constant_pl.rates, constant_pl.rounds, constant_pl.optimal_rounds, constant_pl.proved):
        with pytest.raises(FedamdError, match="give mu"):
            function(make_problem())
