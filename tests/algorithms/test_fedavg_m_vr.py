"""FedAvg-M-VR: two rounds by hand, and FedAvg with α = 1."""

from fedamd.algorithms import FedAvg, FedAvgMVR
from support import PAIR, TRIPLES, close, simulate, trajectory, witness

SETTINGS = {"eta_l": 0.1, "steps": 2, "alpha": 0.5}


def test_two_rounds_by_hand():
    """d = ∇F_i(y) + 0.5·(m − ∇F_i(x_{t−1})), and x_{−1} = x_0 = 0.

    m = 0:    client 0, d = ∇F_0(y) + 0.5: 0.05, 0.095;  client 1, d = ∇F_1(y) − 1.5: −0.15, −0.255;
              x_1 = −0.08, m = 0.4.
    m = 0.4:  client 0, d = ∇F_0(y) + 0.7: −0.042, −0.0078;  client 1, d = ∇F_1(y) − 1.3: −0.226, −0.3282;
              x_2 = −0.168, m = 0.44.
    """
    assert close(trajectory(FedAvgMVR(**SETTINGS), PAIR, rounds=2), [-0.08, -0.168])
    run = simulate(FedAvgMVR(**SETTINGS), PAIR, rounds=2)
    assert close(run.state.m, [0.44])
    assert close(run.state.previous, [-0.08])


def test_without_momentum_it_is_fedavg(crowd):
    how = {"eta_l": 0.1, "steps": 3, "small_batch": 1}
    ours, theirs = FedAvgMVR(**how, alpha=1.0), FedAvg(**how)
    assert close(trajectory(ours, crowd, rounds=5, cohort=3), trajectory(theirs, crowd, rounds=5, cohort=3))


def test_costs():
    """2·A·K·b' gradients; down x, x_{t−1} and m, up Δ: 4A vectors."""
    run = simulate(FedAvgMVR(**SETTINGS, small_batch=1), TRIPLES, rounds=1)
    assert run.ledger.totals() == {"gradient_samples": 8, "bits_up": 2 * 64, "bits_down": 6 * 64}


def test_missing_replies(crowd):
    """A round without replies changes nothing; after any other, x_{t−1} is the x of that round."""
    _, rounds = witness(FedAvgMVR(eta_l=0.1, steps=2, small_batch=2), crowd, rounds=40, cohort=2, failure_rate=0.3)
    assert {0, 1, 2} == {len(seen.replies["worker"]) for seen in rounds}
    for seen in rounds:
        came = len(seen.replies["worker"])
        assert close(seen.after.previous, seen.before.x if came else seen.before.previous)
        assert came or close(seen.after.x, seen.before.x)
