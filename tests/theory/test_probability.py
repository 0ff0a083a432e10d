"""p* against what it is the optimum of, against its printed form in high precision, and at its extremes."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedamd.errors import FedamdError
from fedamd.theory.probability import anchor_probability, optimal_nonconvex, optimal_pl, some_miner
from fedamd.theory.problem import Setting

COHORTS = [1, 2, 5, 20, 40, 100, 1000]


@pytest.mark.parametrize(("A", "expected"), [(20, 0.887), (40, 0.927), (100, 0.961)])
def test_values_of_the_paper(A: int, expected: float) -> None:
    assert optimal_nonconvex(A) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize("A", COHORTS)
def test_nonconvex_optimum_maximises_p_root_of_one_minus_p_to_the_A(A: int) -> None:
    grid = np.linspace(1e-6, 1 - 1e-9, 400_001)
    best = grid[np.argmax(grid * np.sqrt(1 - grid**A))]
    assert optimal_nonconvex(A) == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("A", COHORTS)
@pytest.mark.parametrize("mu", [1.0, 0.3, 0.01])
def test_pl_optimum_minimises_the_dominant_rounds(A: int, mu: float) -> None:
    """The paper's dominant part of Theorem 4.11 is M/(μ²·A·p·(1 − p^A)) + M/(A·p)."""
    grid = np.linspace(1e-6, 1 - 1e-9, 400_001)
    best = grid[np.argmin((1 / (mu**2 * (1 - grid**A)) + 1) / grid)]
    assert optimal_pl(A, mu) == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("A", [1, 7, 100, 10**6, 10**9])
@pytest.mark.parametrize("mu", [1.0, 1e-3, 1e-9, 1e-100])
def test_pl_optimum_keeps_all_digits_where_the_printed_form_cancels(A: int, mu: float) -> None:
    with mpmath.workdps(500):
        half, square = mpmath.mpf(A + 1) / (2 * mpmath.mpf(mu) ** 2), mpmath.mpf(mu) ** 2
        printed = float((1 + half - mpmath.sqrt(half**2 + A / square)) ** (mpmath.mpf(1) / A))
    assert optimal_pl(A, mu) == pytest.approx(printed, rel=1e-14)


def test_as_mu_vanishes_p_to_the_A_is_one_over_A_plus_one() -> None:
    """1/(p(1 − p^A)) alone has its minimum where A·q = 1 − q."""
    assert optimal_pl(9, 1e-12) ** 9 == pytest.approx(1 / 10, rel=1e-12)


@given(A=st.integers(1, 5000), c=st.floats(1, 100), mu=st.floats(1e-6, 1))
def test_probabilities_are_possible_and_grow_with_the_cohort(A: int, c: float, mu: float) -> None:
    for of_cohort in (lambda A: optimal_nonconvex(A, c), lambda A: optimal_pl(A, mu, c)):
        assert 0 < of_cohort(A) < of_cohort(A + 1) < 1
        assert of_cohort(A) * c >= 0.5 * (1 - 1e-12)


@pytest.mark.parametrize(("p", "A"), [(0.3, 2), (1 - 1e-12, 3), (0.999999, 10**6)])
def test_some_miner(p: float, A: int) -> None:
    with mpmath.workdps(60):
        assert some_miner(p, A) == pytest.approx(float(1 - mpmath.mpf(p) ** A), rel=1e-13)


def test_the_probability_of_a_setting() -> None:
    """Given, or p*/c; under PL with μ relative to L."""
    common = {"M": 100, "A": 20, "K": 10, "b_small": 1, "L": 4.0, "L_sigma": 0.0}
    assert anchor_probability(Setting(**common, p=0.25)) == 0.25
    assert anchor_probability(Setting(**common, c=2.0)) == optimal_nonconvex(20) / 2
    assert anchor_probability(Setting(**common, mu=2.0)) == optimal_pl(20, 0.5)


@pytest.mark.parametrize("bad", [{"A": 0}, {"c": 0.5}, {"c": math.nan}, {"c": math.inf}])
def test_impossible_arguments(bad: dict[str, float]) -> None:
    with pytest.raises(FedamdError):
        optimal_nonconvex(**({"A": 5} | bad))
    with pytest.raises(FedamdError):
        optimal_pl(**({"A": 5, "mu": 0.1} | bad))


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan, math.inf])
def test_impossible_mu(mu: float) -> None:
    with pytest.raises(FedamdError, match="mu is"):
        optimal_pl(5, mu)
