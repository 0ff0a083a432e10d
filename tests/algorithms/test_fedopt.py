"""FedAvgM, FedAdam, FedYogi and FedAdaGrad: two rounds of each by hand, and other methods with their server steps."""

import math

import pytest
import torch

from fedamd.algorithms import ALGORITHMS, FedAvg
from support import PAIR, close, trajectory

LOCAL = {"eta_l": 0.1, "steps": 2}  # on PAIR a round's Δ is 0.16 at 0, and 0.16 + 0.35·x at x: see test_fedavg


def delta(x: float) -> float:
    """Δ = x − ½·(0.81x + 0.19) − ½·(0.49x − 0.51) = 0.35x + 0.16."""
    return 0.35 * x + 0.16


def test_two_rounds_with_momentum_by_hand():
    """β₁ = 0.5: m = 0.16, x_1 = −0.16; Δ = 0.104, m = 0.08 + 0.104 = 0.184, x_2 = −0.344."""
    path = trajectory(FedAvg(**LOCAL, server="momentum", beta_1=0.5), PAIR, rounds=2)
    assert close(path, [-0.16, -0.344])


@pytest.mark.parametrize("server", ["adagrad", "adam", "yogi"])
def test_two_adaptive_rounds_by_hand(server):
    """η_s = 0.1, β₁ = 0.5, β₂ = 0.9, ε = 0.01, v_0 = ε² = 0.0001, m_0 = 0, Δ_0 = 0.16, Δ_0² = 0.0256:

    m_1 = 0.08, and v_1 is adagrad 0.0257; adam 0.00009 + 0.00256 = 0.00265; yogi 0.0001 + 0.00256 = 0.00266 (v_0 < Δ²).
    x_1 = −0.1·0.08/(√v_1 + 0.01). Then with Δ_1 = 0.35·x_1 + 0.16: m_2 = 0.04 + 0.5·Δ_1, and v_2 is
    adagrad v_1 + Δ_1²; adam 0.9·v_1 + 0.1·Δ_1²; yogi v_1 + 0.1·Δ_1², for still v_1 < Δ_1².
    """
    v = {"adagrad": 0.0257, "adam": 0.00265, "yogi": 0.00266}[server]
    first = -0.008 / (math.sqrt(v) + 0.01)
    square = delta(first) ** 2
    assert v < square or server == "adagrad"
    v = {"adagrad": v + square, "adam": 0.9 * v + 0.1 * square, "yogi": v + 0.1 * square}[server]
    second = first - 0.1 * (0.04 + 0.5 * delta(first)) / (math.sqrt(v) + 0.01)
    method = FedAvg(**LOCAL, server=server, eta_s=0.1, beta_1=0.5, beta_2=0.9, adaptivity=0.01)
    assert close(trajectory(method, PAIR, rounds=2), [first, second])


def test_momentum_zero_is_plain(crowd):
    plain = trajectory(FedAvg(**LOCAL, small_batch=1), crowd, rounds=5, cohort=3)
    still = trajectory(FedAvg(**LOCAL, small_batch=1, server="momentum", beta_1=0.0), crowd, rounds=5, cohort=3)
    assert torch.equal(plain, still)


@pytest.mark.parametrize(
    ("name", "server", "eta_s"),
    [("fedavgm", "momentum", 1.0), ("fedadam", "adam", 0.1), ("fedyogi", "yogi", 0.1), ("fedadagrad", "adagrad", 0.1)],
)
def test_names_are_fedavg_with_that_step(name, server, eta_s, crowd):
    """An adaptive step is of size η_s in every coordinate, so those names come with a smaller one."""
    method = ALGORITHMS[name]
    named = trajectory(method.make(**dict(method.presets), **LOCAL), crowd, rounds=3)
    assert torch.equal(named, trajectory(FedAvg(**LOCAL, server=server, eta_s=eta_s), crowd, rounds=3))


@pytest.mark.parametrize(
    "name",
    ["scaffold", "fedprox", "fednova", "feddyn", "mime", "fedlin", "fedpage", "bvr-l-sgd", "vr-marina", "fedamd"],
)
def test_any_method_with_a_delta_takes_any_step(name, crowd):
    """The first step with momentum is the plain one; after eight rounds momentum is well ahead."""
    plain = trajectory(ALGORITHMS[name].make(eta_s=0.01), crowd, rounds=8)
    heavy = trajectory(ALGORITHMS[name].make(eta_s=0.01, server="momentum"), crowd, rounds=8)
    moved = (plain.flatten() != 0).nonzero()[0, 0]
    assert close(plain[moved], heavy[moved])
    assert heavy[-1].abs() > 1.5 * plain[-1].abs()
