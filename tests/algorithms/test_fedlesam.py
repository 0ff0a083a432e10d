"""FedLESAM: two rounds by hand, FedAvg without a perturbation, and whom a client remembers."""

import torch

from fedamd.algorithms import FedAvg, FedLESAM
from support import PAIR, TRIPLES, close, held, simulate, trajectory, witness

STEPS = {"eta_l": 0.1, "steps": 2}


def test_two_rounds_by_hand():
    """Round 0 is FedAvg's: x_1 = −0.16. Then w − x = 0.16, uphill is +0.1:
    client 0: ∇F_0(−0.06) = −1.06, y = −0.054; ∇F_0(0.046) = −0.954, y = 0.0414.
    client 1: ∇F_1(−0.06) = 2.82, y = −0.442; ∇F_1(−0.342) = 1.974, y = −0.6394.  x_2 = −0.299.
    """
    assert close(trajectory(FedLESAM(**STEPS, rho=0.1), PAIR, rounds=2), [-0.16, -0.299], 1e-9)


def test_without_a_perturbation_it_is_fedavg(crowd):
    how = {"eta_l": 0.1, "steps": 3, "small_batch": 1}
    ours = trajectory(FedLESAM(**how, rho=0.0), crowd, rounds=5, cohort=3)
    assert torch.equal(ours, trajectory(FedAvg(**how), crowd, rounds=5, cohort=3))


def test_costs():
    """As FedAvg: A·K·b' gradients, 2A vectors."""
    run = simulate(FedLESAM(**STEPS, small_batch=1), TRIPLES, rounds=2)
    assert run.ledger.totals() == {"gradient_samples": 8, "bits_up": 4 * 64, "bits_down": 4 * 64}


def test_missing_replies(crowd):
    """A client remembers the model of the last round in which its reply was accepted."""
    run, rounds = witness(FedLESAM(**STEPS, small_batch=2), crowd, rounds=40, cohort=2, failure_rate=0.3)
    table = torch.zeros(5, 1, dtype=torch.float64)
    for seen in rounds:
        workers = seen.replies["worker"]
        table[list(workers.clients)] = seen.before.x
        assert close(seen.before.x - seen.after.x, workers.delta.mean(0) if len(workers) else [0.0])
    assert close(held(run, "w"), table)
