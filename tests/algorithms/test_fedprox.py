"""FedProx: two rounds by hand, and FedAvg without the proximal term."""

import pytest
import torch

from fedamd.algorithms import FedAvg, FedProx
from fedamd.errors import FedamdError
from support import PAIR, close, trajectory, witness


def test_two_rounds_by_hand():
    """μ = 1, η_l = 0.1, K = 2: client 0 maps y to y − 0.1·(y − 1 + y − x), client 1 to y − 0.1·(3y + 3 + y − x).

    From x = 0:      client 0: 0.1, 0.18;      client 1: −0.3, −0.48;     x_1 = −0.15.
    From x = −0.15:  client 0: −0.035, 0.057;  client 1: −0.405, −0.558;  x_2 = (0.057 − 0.558)/2 = −0.2505.
    """
    assert close(trajectory(FedProx(eta_l=0.1, steps=2, mu=1.0), PAIR, rounds=2), [-0.15, -0.2505])


def test_without_the_proximal_term_it_is_fedavg(crowd):
    """FedProx(0) = FedAvg, to the bit, on random batches."""
    settings = {"eta_l": 0.1, "steps": 3, "small_batch": 1}
    with_none = trajectory(FedProx(mu=0.0, **settings), crowd, rounds=5, cohort=3)
    assert torch.equal(with_none, trajectory(FedAvg(**settings), crowd, rounds=5, cohort=3))
    assert not torch.equal(with_none, trajectory(FedProx(mu=0.5, **settings), crowd, rounds=5, cohort=3))


def test_missing_replies(crowd):
    """Invariant: x_{t+1} = x_t − mean of the Δ that came; with none, x_{t+1} = x_t."""
    _, rounds = witness(FedProx(steps=2), crowd, rounds=40, cohort=2, failure_rate=0.3)
    assert {0, 1, 2} == {len(seen.replies["worker"]) for seen in rounds}
    for seen in rounds:
        workers = seen.replies["worker"]
        assert close(seen.before.x - seen.after.x, workers.delta.mean(0) if len(workers) else [0.0])


def test_refuses_a_negative_mu():
    with pytest.raises(FedamdError, match=r"^mu must be a finite number of at least 0, not -1\.0$"):
        FedProx(mu=-1.0)
