"""Learning rates by theory."""

from collections.abc import Callable

import pytest

from fedamd.errors import FedamdError
from fedamd.theory import constant, constant_pl, sequential
from fedamd.theory.problem import Problem, Setting
from fedamd.theory.resolve import theory_rates


def test_the_theorem_of_each_schedule(make_problem: Callable[..., Problem]) -> None:
    assert theory_rates("constant", make_problem()) == constant.rates(make_problem())
    assert theory_rates("constant", make_problem(mu=0.1)) == constant_pl.rates(make_problem(mu=0.1))
    assert theory_rates("sequential", make_problem(tau=4)) == sequential.rates(make_problem(tau=4))


def test_a_setting_is_enough() -> None:
    """No accuracy or noise is needed: η_l = 1/(2√6·5·1)."""
    setting = Setting(M=10, A=2, K=5, b_small=8, L=1.0, L_sigma=1.0)
    assert theory_rates("constant", setting).eta_l == pytest.approx(1 / (2 * 6**0.5 * 5))


def test_refusals(make_problem: Callable[..., Problem]) -> None:
    with pytest.raises(FedamdError, match="K = 1 is below"):
        theory_rates("constant", make_problem(K=1))
    with pytest.raises(FedamdError, match='"random" has no theorem'):
        theory_rates("random", make_problem())
