"""Theorem 4.4 and Corollary 4.5 against exact evaluation of the printed formulas; L = 2, Δ = 3/2, so ε/(LΔ) = 1/300."""

from collections.abc import Callable

import pytest
from sympy import Min, Rational, sqrt

from fedamd.errors import FedamdError
from fedamd.theory import sequential_full
from fedamd.theory.problem import Problem, Rates


@pytest.mark.parametrize("tau", [2, 5])
@pytest.mark.parametrize("L_sigma", [0, 3, 50])
def test_rates(tau: int, L_sigma: int, make_problem: Callable[..., Problem]) -> None:
    eta_l, eta_s = sequential_full.rates(make_problem(A=100, tau=tau, L_sigma=float(L_sigma)))
    limit = 1 / (6 * sqrt(2) * 20)
    if L_sigma:
        limit = Min(limit, sqrt(Rational(4, 10)) / (2 * sqrt(3) * L_sigma))
    assert eta_l == pytest.approx(float(limit))
    assert eta_l * eta_s == pytest.approx(float(1 / (6 * sqrt(6) * 20 * tau)))


def test_bound(make_problem: Callable[..., Problem]) -> None:
    """η_l = 0.01, η_s = 0.5, K = 10, T = 30: 6/(0.05·30) = 4; 16·0.2·(1 + 0.6) = 5.12 times 25/(100·40) = 1/160."""
    problem = make_problem(A=100)
    assert sequential_full.bound(problem, Rates(0.01, 0.5), 30, 40) == pytest.approx(4 + 5.12 / 160)
    assert sequential_full.bound(problem, Rates(0.01, 0.5), 30, 600) == pytest.approx(4)


def test_unit_large_batch(make_problem: Callable[..., Problem]) -> None:
    """σ²/(LΔ) = 25/3: T = (25/3)/100·300² = 7500; (M/(σ²T))^{1/4} = (100/62500)^{1/4} = 0.2; η_l = 0.02/L."""
    T, rates = sequential_full.unit_large_batch(make_problem(A=100))
    assert pytest.approx(7500) == T
    assert rates == pytest.approx((0.01, 0.2))


def test_step_large_batch(make_problem: Callable[..., Problem]) -> None:
    """T = 7500/K = 750; √T·K·σ = sqrt(750·25/3)·10 = sqrt(6250)·10, η_l its inverse over L; η_s = sqrt(1000)."""
    T, rates = sequential_full.step_large_batch(make_problem(A=100))
    assert pytest.approx(750) == T
    assert rates == pytest.approx((1 / (6250**0.5 * 20), 1000**0.5))


def test_full_large_batch_is_the_edge_of_the_theorem(make_problem: Callable[..., Problem]) -> None:
    """T = τ/ε = 600, and η_s·η_l = 1/(6√6·K·L·τ) exactly."""
    problem = make_problem(A=100)
    T, rates = sequential_full.full_large_batch(problem)
    assert pytest.approx(600) == T
    assert rates == pytest.approx(sequential_full.rates(problem))


def test_full_large_batch_needs_enough_steps(make_problem: Callable[..., Problem]) -> None:
    """L_σ²/(6·b'·L²) = 48²/(6·4·4) = 24."""
    assert sequential_full.least_steps(make_problem(A=100, L_sigma=48.0)) == 24
    with pytest.raises(FedamdError, match="K = 24"):
        sequential_full.full_large_batch(make_problem(A=100, L_sigma=48.0, K=23))


def test_refusals(make_problem: Callable[..., Problem]) -> None:
    with pytest.raises(FedamdError, match="full participation"):
        sequential_full.rates(make_problem(A=99))
    with pytest.raises(FedamdError, match="sigma above 0"):
        sequential_full.unit_large_batch(make_problem(A=100, sigma=0.0))
