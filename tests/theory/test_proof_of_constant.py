"""The proof of Theorem 4.8, read again with a computer algebra system: what its last steps give, and what they need.

γ = η_s·η_l·K; a = (M/(Ap))·sqrt(1 − p^A); the proof's recursion is
E F(x_{t+1}) + 4γ(1 − p^A)(M/(Ap))·e_{t+1} ≤ E F(x_t) + 4γ(1 − p^A)(M/(Ap))·e_t − (γ/4)(1 − p^A)·‖∇F(x_t)‖²
    − (1/(2γ) − L/2 − 4γ(1 − p^A)(M/(Ap))²L²)·E‖x_{t+1} − x_t‖² + 3γ(1 − p^A)·σ²/(Mb).
"""

from collections.abc import Callable

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from fedamd.theory import constant, constant_pl
from fedamd.theory.problem import Problem

M, A, b, K, L, T, gamma, delta = sympy.symbols("M A b K L T gamma Delta", positive=True)
p, moves, sigma, a, s = sympy.symbols("p q sigma a s", positive=True)  # q = 1 − p^A


def step(stale: sympy.Expr) -> sympy.Expr:
    """The factor of −E‖x_{t+1} − x_t‖² at γ = 1/(L·(1 + stale)), times 2(1 + stale)/L."""
    factor = 1 / (2 * gamma) - L / 2 - 4 * gamma * a**2 * L**2
    return sympy.expand(sympy.simplify(factor.subs(gamma, 1 / (L * (1 + stale))) * 2 * (1 + stale) / L))


def test_the_recursion_in_terms_of_a() -> None:
    """4γ(1 − p^A)(M/(Ap))² is 4γa²."""
    assert (
        sympy.simplify(4 * gamma * moves * (M / (A * p)) ** 2 - 4 * gamma * (M / (A * p) * sympy.sqrt(moves)) ** 2) == 0
    )


def test_the_noise_is_12_where_3_is_printed() -> None:
    """Summing the recursion over T rounds and solving for the mean of ‖∇F‖²: 4Δ/(γT(1 − p^A)) + 12σ²/(Mb)."""
    mean = sympy.symbols("mean")
    telescoped = sympy.Eq(gamma / 4 * moves * T * mean, delta + 3 * gamma * T * moves * sigma**2 / (M * b))
    (solved,) = sympy.solve(telescoped, mean)
    assert sympy.simplify(solved - (4 * delta / (gamma * T * moves) + 12 * sigma**2 / (M * b))) == 0
    assert constant.NOISE == {"printed": 3, "proved": 12}


def test_the_printed_rate_needs_a_of_at_most_one_half() -> None:
    """(1 + 2a)·2a − 8a² = 2a·(1 − 2a)."""
    assert sympy.factor(step(2 * a) - 2 * a * (1 - 2 * a)) == 0


def test_with_the_root_of_8_it_always_holds() -> None:
    """(1 + s·a)·s·a − 8a² = s·a + (s² − 8)·a²: never negative from s = 2√2 on, and negative for some a below."""
    assert sympy.expand(step(s * a) - (s * a + (s**2 - 8) * a**2)) == 0
    assert sympy.simplify(step(2 * sympy.sqrt(2) * a) - 2 * sympy.sqrt(2) * a) == 0
    assert constant.STALENESS["proved"] == pytest.approx(8**0.5)


def test_how_far_the_printed_rate_is_off(make_problem: Callable[..., Problem]) -> None:
    """a = 5.4 at M = 100, A = 20, p*: 5·sqrt(10/11)/(1/11)^{1/20} = 5.374."""
    assert constant.staleness(make_problem(M=100, A=20)) == pytest.approx(5.374, abs=1e-3)


@given(clients=st.integers(1, 500), share=st.floats(0, 1), probability=st.floats(0.01, 0.99))
def test_the_step_holds_as_proved(
    clients: int, share: float, probability: float, make_problem: Callable[..., Problem]
) -> None:
    """1/(2γ) − L/2 − 4γa²L² ≥ 0 at the library's γ; as printed wherever a ≤ ½."""
    for version in ("proved", "printed"):
        problem = make_problem(M=clients, A=max(1, round(share * clients)), p=probability, version=version)
        product, stale = constant.product(problem) * problem.K, constant.staleness(problem)
        factor = 1 / (2 * product) - problem.L / 2 - 4 * product * stale**2 * problem.L**2
        assert (factor >= -1e-9 / product) == (version == "proved" or stale <= 0.5 * (1 + 1e-9))


def test_the_proof_under_pl_is_right(make_problem: Callable[..., Problem]) -> None:
    """Theorem 4.11: 3γq·(1 + r + r² + …) with 1 − r = μγq/2 is 6/μ; and its rate makes the step's factor 0."""
    mu = sympy.symbols("mu", positive=True)
    assert sympy.simplify(3 * gamma * moves / (mu * gamma * moves / 2) - 6 / mu) == 0
    ratio = M / (A * p)
    factor = 1 / (2 * gamma) - L / 2 - 8 / mu * ratio * L**2
    assert sympy.simplify(factor.subs(gamma, 1 / (L * (1 + 16 * ratio * L / mu)))) == 0
    assert constant_pl.NOISE == 6
    both = [constant_pl.rates(make_problem(mu=0.5, version=version)) for version in ("printed", "proved")]
    assert both[0] == both[1]


def test_both_versions(make_problem: Callable[..., Problem]) -> None:
    """What is proved is a smaller rate, more noise, hence more rounds."""
    printed, proved = (make_problem(version=version, n=None) for version in ("printed", "proved"))
    assert constant.rates(proved).eta_s < constant.rates(printed).eta_s
    assert constant.bound(proved, 50, 40) > constant.bound(printed, 50, 40)
    assert constant.proved(proved).rounds > constant.proved(printed).rounds
