"""FedAvg: two rounds by hand, weights, where it ends and why, and missing replies."""

import pytest

from fedamd.algorithms import FedAvg
from fedamd.errors import FedamdError
from support import PAIR, close, quadratic_problem, simulate, trajectory, witness


def test_two_rounds_by_hand():
    """A local step maps y to 0.9y + 0.1 on client 0 and to 0.7y − 0.3 on client 1 (η_l = 0.1); K = 2.

    From 0:      client 0: 0.1, 0.19;         client 1: −0.3, −0.51;      x_1 = (0.19 − 0.51)/2 = −0.16.
    From −0.16:  client 0: −0.044, 0.0604;    client 1: −0.412, −0.5884;  x_2 = (0.0604 − 0.5884)/2 = −0.264.
    """
    assert close(trajectory(FedAvg(eta_l=0.1, steps=2), PAIR, rounds=2), [-0.16, -0.264])


def test_server_step_scales_the_mean():
    """With η_s = 1/2 round 1 goes half of the way: x_1 = −0.08."""
    assert close(trajectory(FedAvg(eta_l=0.1, steps=2, eta_s=0.5), PAIR, rounds=1), [-0.08])


def test_weights_by_samples():
    """Client 1 owns three (equal) samples and weighs three times as much: x_1 = (0.19 − 3·0.51)/4 = −0.335."""
    data = quadratic_problem([(1.0, 1.0)], [(-1.0, 3.0)] * 3)
    assert close(trajectory(FedAvg(eta_l=0.1, steps=2, weights="samples"), data, rounds=1), [-0.335])
    assert close(trajectory(FedAvg(eta_l=0.1, steps=2), data, rounds=1), [-0.16])


def test_costs_of_a_round():
    """A·K·b' gradients and 2A vectors: 2·2·1, and 2 vectors of one 64-bit number each way."""
    run = simulate(FedAvg(steps=2), PAIR, rounds=1)
    assert run.ledger.totals() == {"gradient_samples": 4, "bits_up": 128, "bits_down": 128}
    assert run.start_up.gradient_samples == 0


def test_missing_replies(crowd):
    """Invariant: x_{t+1} = x_t − mean of the Δ that came; with none, x_{t+1} = x_t."""
    _, rounds = witness(FedAvg(steps=2, small_batch=2), crowd, rounds=40, cohort=2, failure_rate=0.3)
    came = [len(seen.replies["worker"]) for seen in rounds]
    assert {0, 1, 2} == set(came)
    for seen in rounds:
        workers = seen.replies["worker"]
        moved = seen.before.x - seen.after.x
        assert close(moved, workers.delta.mean(0) if len(workers) else [0.0])


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"eta_l": 0.0}, "eta_l must be a finite number above 0, not 0.0"),
        ({"steps": 0}, "steps must be a whole number of at least 1, not 0"),
        ({"small_batch": -1}, "small_batch must be a whole number of at least 1, not -1"),
        ({"weights": "size"}, "weights must be one of uniform, samples, not 'size'"),
    ],
)
def test_refuses(wrong, sentence):
    with pytest.raises(FedamdError, match=f"^{sentence}$"):
        FedAvg(**wrong)
