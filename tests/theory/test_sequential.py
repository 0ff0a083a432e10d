"""Theorem 4.6 and Corollary 4.7 against exact evaluation of the printed formulas."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Min, Rational, sqrt

from fedamd.errors import FedamdError
from fedamd.theory import sequential
from fedamd.theory.problem import Problem


@pytest.mark.parametrize(("M", "A", "tau"), [(100, 20, 2), (100, 100, 3), (7, 1, 10)])
@pytest.mark.parametrize("L_sigma", [0, 3, 50])
def test_rates(M: int, A: int, tau: int, L_sigma: int, make_problem: Callable[..., Problem]) -> None:
    """K = 10, L = 2, b' = 4; at L_σ = 50 the second limit on η_l is the smaller one."""
    eta_l, eta_s = sequential.rates(make_problem(M=M, A=A, tau=tau, L_sigma=float(L_sigma)))
    limit = 1 / (2 * sqrt(6) * 20)
    if L_sigma:
        limit = Min(limit, sqrt(Rational(4, 10)) / (4 * sqrt(3) * L_sigma))
    assert eta_l == pytest.approx(float(limit))
    assert eta_l * eta_s == pytest.approx(float(Rational(1, 20) / (1 + Rational(2 * M * tau, A))))


@pytest.mark.parametrize(("M", "A", "tau", "expected"), [(100, 20, 2, 42), (100, 100, 3, 10.5), (7, 1, 2, 58)])
def test_rounds(M: int, A: int, tau: int, expected: float, make_problem: Callable[..., Problem]) -> None:
    """(1 + 2Mτ/A)·τ/(τ − 1)/ε: (1 + 20)·2, (1 + 6)·3/2 and (1 + 28)·2, times L·Δ/0.01 = 300."""
    assert sequential.rounds(make_problem(M=M, A=A, tau=tau)) == pytest.approx(300 * expected)


def test_corollary(make_problem: Callable[..., Problem]) -> None:
    """M·(b + τKb')/ε = 100·(25 + 3·10·4)·300; Mτ/(Aε) = 15·300; at τ = 2 Table 1 has 5·300."""
    problem = make_problem(tau=3)
    assert sequential.gradients(problem) == pytest.approx(100 * 145 * 300)
    assert sequential.communication(problem) == pytest.approx(4500)
    assert sequential.optimal_rounds(problem) == pytest.approx(1500)


def test_bound_counts_miner_rounds(make_problem: Callable[..., Problem]) -> None:
    """τ = 3: of rounds 0 … 6, rounds 1, 2, 4, 5 mine. 4Δ·L·(1 + 2·100·3/20)/4 = 6·2·31/4 = 93; 8·25/(100·40) = 0.05."""
    problem = make_problem(tau=3)
    assert sequential.bound(problem, 7, 40) == pytest.approx(93 + 0.05)
    assert sequential.bound(problem, 7, 600) == pytest.approx(93)
    assert sequential.bound(problem, 1, 600) == float("inf")


@given(tau=st.integers(2, 50), M=st.integers(1, 300), share=st.floats(0, 1), epsilon=st.floats(1e-4, 1))
def test_properties(tau: int, M: int, share: float, epsilon: float, make_problem: Callable[..., Problem]) -> None:
    """τ = 2 needs the fewest rounds; the proved rounds are the first to be within ε."""
    problem = make_problem(M=M, A=max(1, round(share * M)), tau=tau, epsilon=epsilon)
    assert sequential.slowdown(problem) >= 1
    assert sequential.rounds(replace(problem, tau=tau + 1)) > sequential.rounds(problem)
    assert sequential.rounds(replace(problem, epsilon=epsilon / 2)) > sequential.rounds(problem)
    proved = sequential.proved(problem)
    assert proved is not None
    assert sequential.bound(problem, proved.rounds, proved.b) <= epsilon * (1 + 1e-9)
    assert sequential.bound(problem, proved.rounds - 1, proved.b) > epsilon


def test_nothing_is_proved_where_noise_stays_above_epsilon(make_problem: Callable[..., Problem]) -> None:
    """8·25/(100·b) = ε = 0.01 at b = 200."""
    assert sequential.proved(make_problem(b=200, n=None)) is None
    assert sequential.proved(make_problem(b=201, n=None)) is not None


def test_no_rate_under_pl(make_problem: Callable[..., Problem]) -> None:
    with pytest.raises(FedamdError, match="leave mu out"):
        sequential.rounds(make_problem(mu=0.1))
