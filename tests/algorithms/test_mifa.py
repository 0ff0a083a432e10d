"""MIFA: everyone's last update, also of those that are not there."""

import pytest
import torch

from fedamd.algorithms import MIFA, FedAvg
from fedamd.errors import FedamdError
from support import PAIR, TRIPLES, close, held, simulate, trajectory, witness

HOW = {"eta_l": 0.1, "steps": 3, "small_batch": 1}


def test_a_round_of_one_client_by_hand():
    """η_l = 0.1, K = 2 from x = 0. Without start-up one client moves x by half its Δ: −0.095 or 0.255. After a start-up
    with both, G_i = Δ_i at x_0 for both, and x_1 = −0.16 whoever is asked: its update from x_0 again is the same."""
    run, (seen,) = witness(MIFA(eta_l=0.1, steps=2, start_up="zeros"), PAIR, rounds=1, cohort=1)
    assert close(run.state.x, [{0: 0.095, 1: -0.255}[seen.replies["worker"].clients[0]]])
    assert close(trajectory(MIFA(eta_l=0.1, steps=2), PAIR, rounds=1, cohort=1), [-0.16])


@pytest.mark.parametrize("start_up", ["full", "zeros"])
def test_with_everyone_it_is_fedavg(start_up, crowd):
    ours = trajectory(MIFA(**HOW, start_up=start_up), crowd, rounds=6)
    assert close(ours, trajectory(FedAvg(**HOW), crowd, rounds=6))


@pytest.mark.parametrize("start_up", ["full", "zeros"])
def test_missing_replies(start_up, crowd):
    """Invariant: x moves by the mean of all M updates that clients hold, replied or not."""
    method = MIFA(**HOW, start_up=start_up)
    run, rounds = witness(method, crowd, rounds=40, cohort=2, failure_rate=0.3)
    assert {0, 1, 2} == {len(seen.replies["worker"]) for seen in rounds}
    assert close(run.state.mean_update, held(run, "last").mean(0))
    for seen in rounds:
        moved = seen.after.mean_update if len(seen.replies["worker"]) else torch.zeros(1, dtype=torch.float64)
        assert close(seen.before.x - seen.after.x, moved)


def test_costs():
    """As FedAvg; the start-up pass, a round of everyone, stands on its own."""
    run = simulate(MIFA(eta_l=0.1, steps=2, small_batch=1), TRIPLES, rounds=1, cohort=1)
    assert run.ledger.totals() == {"gradient_samples": 2, "bits_up": 64, "bits_down": 64}
    assert run.start_up.totals() == {"gradient_samples": 4, "bits_up": 2 * 64, "bits_down": 2 * 64}


def test_refuses_another_start():
    with pytest.raises(FedamdError, match=r"^start_up must be one of full, zeros, not 'lazy'$"):
        MIFA(start_up="lazy")
