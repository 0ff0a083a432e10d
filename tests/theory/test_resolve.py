"""Learning rates by theory."""

from collections.abc import Callable

import pytest

from fedamd.errors import FedamdError
from fedamd.theory import constant, constant_pl, sequential
from fedamd.theory.problem import Problem, Setting
from fedamd.theory.resolve import complete_rates, theory_rates


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


@pytest.mark.parametrize("schedule", ["constant", "sequential"])
@pytest.mark.parametrize("mu", [None, 0.1])
def test_one_rate_given_the_product_is_the_theorems(schedule, mu, make_problem):
    setting = make_problem(mu=mu)
    own = theory_rates(schedule, setting)
    assert complete_rates(schedule, setting) == (own, None)
    half = complete_rates(schedule, setting, eta_l=own.eta_l / 2)
    assert half.rates == pytest.approx((own.eta_l / 2, own.eta_s * 2))
    assert half.beyond is None
    assert complete_rates(schedule, setting, eta_s=own.eta_s).rates == pytest.approx(own)
    assert complete_rates(schedule, setting, eta_s=own.eta_s).beyond is None


def test_a_given_rate_beyond_the_limit(make_problem):
    setting = make_problem()
    own = theory_rates("constant", setting)
    large = complete_rates("constant", setting, eta_l=2 * own.eta_l)
    assert large.rates.eta_s == pytest.approx(own.eta_s / 2)
    assert "above the theorem's limit" in large.beyond
    small = complete_rates("constant", setting, eta_s=own.eta_s / 2)
    assert small.rates.eta_l == pytest.approx(2 * own.eta_l)
    assert "leaves eta_l" in small.beyond
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(FedamdError, match="must be a positive number"):
            complete_rates("constant", setting, eta_s=wrong)
    with pytest.raises(FedamdError, match="no theorem"):
        complete_rates("random", setting, eta_s=1.0)
