"""FedCM: two rounds by hand, FedAvg with α = 1, and what the momentum is whoever replies."""

import pytest
import torch

from fedamd.algorithms import FedAvg, FedCM
from fedamd.errors import FedamdError
from support import PAIR, TRIPLES, close, simulate, trajectory, witness

SETTINGS = {"eta_l": 0.1, "steps": 2, "alpha": 0.5}


def test_two_rounds_by_hand():
    """y ← y − 0.05·(∇F_i(y) + m).

    x = 0, m = 0:  client 0: 0.05, 0.0975;  client 1: −0.15, −0.2775;  x_1 = −0.09, m = 0.09/0.2 = 0.45.
    x = −0.09:     client 0: −0.058, −0.0276;  client 1: −0.249, −0.38415;  x_2 = −0.205875, m = 0.115875/0.2.
    """
    assert close(trajectory(FedCM(**SETTINGS), PAIR, rounds=2), [-0.09, -0.205875])
    assert close(simulate(FedCM(**SETTINGS), PAIR, rounds=2).state.m, [0.579375])


def test_without_momentum_it_is_fedavg(crowd):
    how = {"eta_l": 0.1, "steps": 3, "small_batch": 1}
    assert torch.equal(
        trajectory(FedCM(**how, alpha=1.0), crowd, rounds=5, cohort=3),
        trajectory(FedAvg(**how), crowd, rounds=5, cohort=3),
    )


def test_costs():
    """A·K·b' gradients; down x and m, up Δ: 3A vectors. Here A = 2, b' = 1."""
    run = simulate(FedCM(**SETTINGS, small_batch=1), TRIPLES, rounds=1)
    assert run.ledger.totals() == {"gradient_samples": 4, "bits_up": 2 * 64, "bits_down": 4 * 64}


def test_missing_replies(crowd):
    """x moves by the mean of the Δ that came, and m is that mean over K·η_l; nothing moves where none came."""
    _, rounds = witness(FedCM(eta_l=0.1, steps=2, small_batch=2), crowd, rounds=40, cohort=2, failure_rate=0.3)
    assert {0, 1, 2} == {len(seen.replies["worker"]) for seen in rounds}
    for seen in rounds:
        workers = seen.replies["worker"]
        delta = workers.delta.mean(0) if len(workers) else torch.zeros(1, dtype=torch.float64)
        assert close(seen.before.x - seen.after.x, delta)
        assert close(seen.after.m, delta / 0.2 if len(workers) else seen.before.m)


@pytest.mark.parametrize("alpha", [0.0, 1.5])
def test_refuses_an_impossible_share(alpha):
    with pytest.raises(FedamdError, match=r"^alpha must"):
        FedCM(alpha=alpha)
