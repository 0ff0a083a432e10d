"""Guidance for anchored momentum: its formulas at the ends, by hand, and against simulated noise."""

import dataclasses

import pytest
import torch

from fedamd.errors import FedamdError
from fedamd.theory.anchored import advise, best_momentum, drift, momentum_error, with_refresh
from fedamd.theory.problem import Problem, Rates

PROBLEM = Problem(M=100, A=20, K=10, b_small=64, L=2.0, L_sigma=1.0, sigma=8.0, delta=1.0, epsilon=0.25, n=640, b=640)
STILL = Rates(eta_l=0.0, eta_s=1.0)


def test_drift_by_hand() -> None:
    """L·η_s·η_l·K·sqrt(ε) = 2·0.5·0.01·10·0.5; under the PL condition sqrt(2·L·ε) = 1."""
    assert drift(PROBLEM, Rates(eta_l=0.01, eta_s=0.5)) == pytest.approx(0.05)
    assert drift(dataclasses.replace(PROBLEM, mu=0.1), Rates(eta_l=0.01, eta_s=0.5)) == pytest.approx(0.1)


def test_strength_and_noise_by_hand() -> None:
    """Nothing moves: E = 64/640 = 0.1; ζ² = 0.4 gives s = 0.8, V = 64/(20·640) + 80/(99·20)·0.08."""
    advice = with_refresh(PROBLEM, 0.4, STILL)
    assert advice.s == pytest.approx(0.8)
    noise = 0.005 + 80 / (99 * 20) * 0.08
    assert advice.a == pytest.approx(1e-4)  # nothing moves: the longest memory there is
    assert advice.error == pytest.approx(momentum_error(1e-4, noise, 0.0))


def test_equal_clients_need_no_correction_and_no_noise_no_momentum() -> None:
    assert with_refresh(PROBLEM, 0.0, Rates(0.01, 1.0)).s == 0.0
    quiet = dataclasses.replace(PROBLEM, sigma=0.0)
    assert with_refresh(quiet, 0.0, Rates(0.01, 1.0)).a == 1.0


def test_an_old_cache_corrects_less() -> None:
    slow, fast = (with_refresh(PROBLEM, 0.4, Rates(eta_l, 1.0)).s for eta_l in (1e-4, 1e-1))
    assert fast < 0.01 < 0.5 < slow


def test_anchors_are_advised_only_where_they_pay() -> None:
    """Miners renew the cache for free here, and no p does better than what is advised."""
    assert advise(PROBLEM, 0.4, Rates(0.001, 1.0)).refresh == "miners"
    for p in (0.1, 0.5, 0.9):
        own = with_refresh(PROBLEM, 0.4, Rates(0.001, 1.0), p)
        best = advise(PROBLEM, 0.4, Rates(0.001, 1.0))
        assert best.error * best.gradients <= own.error * own.gradients


@pytest.mark.parametrize(("noise", "moved"), [(1.0, 0.01), (1.0, 0.1), (0.1, 0.1)])
def test_the_error_is_that_of_a_simulated_momentum(noise: float, moved: float) -> None:
    """A target that moves by `moved` a round along one axis, 400 rounds: there the bound is attained."""
    a = best_momentum(noise, moved)
    random = torch.Generator().manual_seed(0)
    m = torch.zeros(2000, dtype=torch.float64)
    for t in range(1, 401):
        m = a * (t * moved + noise**0.5 * torch.randn(2000, dtype=torch.float64, generator=random)) + (1 - a) * m
    assert float((m - 400 * moved).square().mean()) == pytest.approx(momentum_error(a, noise, moved), rel=0.1)


def test_a_negative_heterogeneity_is_refused() -> None:
    with pytest.raises(FedamdError, match="mean of squares"):
        advise(PROBLEM, -1.0, STILL)
