"""Every cell of Table 1 at two points, computed exactly from the printed expressions.

With L = Δ = 1 and b' = 1 the units are the paper's.
"""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Rational, symbols, sympify

from fedamd.theory.methods import SCAFFOLD, TABLE1, Table1Method
from fedamd.theory.problem import Problem

KEYS = [method.key for method in TABLE1]
SYMBOLS = symbols("M A K s e m")
NONCONVEX = {
    "minibatch-sgd": "1/(M*K*e**2) + 1/e",
    "fedavg": "K/(A*e**2) + 1/e",
    "scaffold": "s**2/(A*K*e**2) + (M/A)**(2/3)/e",
    "bvr-l-sgd": "1/(M*K*e**(3/2)) + 1/e",
    "vr-marina": "s/(M*e**(3/2)) + s**2/(M*e) + 1/e",
    "fedamd-sequential": "M/(A*e)",
    "fedamd-constant": "M/(A*e)",
}
PL = {
    "minibatch-sgd": "s**2/(m*M*K*e) + log(1/(m*e))/m",
    "fedavg": "(1 + s**2/K)/(m*A*e) + sqrt(1 + s**2/K)/(m*sqrt(e)) + log(1/e)/m",
    "scaffold": "s**2/(m*A*K*e) + (M/A + 1/m)*log(M*m/(A*e))",
    "vr-marina": "(s**2/(m*M*e) + s/(m**(3/2)*M*sqrt(e)) + 1/m)*log(1/e)",
    "fedamd-constant": "(1/m + M/(m**2*A) + M/A)*log(1/e)",
}
POINTS = [(100, 20, 10, 5, Rational(1, 100)), (30, 30, 1, 0, Rational(1, 7))]


def exact(cell: str, *values: Rational | int) -> float:
    """A cell of the table at a point (M, A, K, σ, ε, μ)."""
    expression = sympify(cell, locals={symbol.name: symbol for symbol in SYMBOLS})
    return float(expression.subs(dict(zip(SYMBOLS, values, strict=False))))


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("method", TABLE1, ids=KEYS)
def test_nonconvex_column(
    method: Table1Method, point: tuple[int, int, int, int, Rational], make_problem: Callable[..., Problem]
) -> None:
    M, A, K, sigma, epsilon = point
    problem = make_problem(M=M, A=A, K=K, sigma=sigma, epsilon=float(epsilon), L=1.0, delta=1.0, b_small=1)
    assert method.rounds(problem) == pytest.approx(exact(NONCONVEX[method.key], *point))


@pytest.mark.parametrize("mu", [Rational(1, 4), Rational(1)])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("method", TABLE1, ids=KEYS)
def test_pl_column(
    method: Table1Method, point: tuple[int, int, int, int, Rational], mu: Rational, make_problem: Callable[..., Problem]
) -> None:
    M, A, K, sigma, epsilon = point
    problem = make_problem(
        M=M, A=A, K=K, sigma=sigma, epsilon=float(epsilon), mu=float(mu), L=1.0, delta=1.0, b_small=1
    )
    if method.key not in PL:
        assert method.rounds(problem) is None
    else:
        assert method.rounds(problem) == pytest.approx(exact(PL[method.key], *point, mu))


def test_who_needs_everyone() -> None:
    assert {method.key for method in TABLE1 if not method.partial} == {"minibatch-sgd", "bvr-l-sgd", "vr-marina"}


def test_a_void_logarithm_gives_no_number(make_problem: Callable[..., Problem]) -> None:
    """Mμ/(Aε) in relative units: 5·0.001/(0.01/1.5) < 1."""
    assert math.isnan(SCAFFOLD.rounds(make_problem(mu=0.002)))


def test_a_small_batch_divides_the_noise(make_problem: Callable[..., Problem]) -> None:
    """Four samples of noise σ² are as good as one of σ²/4."""
    assert SCAFFOLD.rounds(make_problem(b_small=4, sigma=6.0)) == pytest.approx(
        SCAFFOLD.rounds(make_problem(b_small=1, sigma=3.0))
    )


@given(epsilon=st.floats(1e-5, 0.5), M=st.integers(1, 200), sigma=st.floats(0, 10), mu=st.none() | st.floats(0.1, 2))
def test_more_accuracy_costs_more_rounds(
    epsilon: float, M: int, sigma: float, mu: float | None, make_problem: Callable[..., Problem]
) -> None:
    loose = make_problem(epsilon=epsilon, M=M, A=M, sigma=sigma, mu=mu)
    tight = make_problem(epsilon=epsilon / 2, M=M, A=M, sigma=sigma, mu=mu)
    for method in TABLE1:
        rounds = method.rounds(loose)
        if rounds is not None and not math.isnan(rounds):
            assert method.rounds(tight) > rounds > 0
