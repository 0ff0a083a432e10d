"""SCAFFOLD-M and SCAFFOLD-M-VR: two rounds of each by hand, SCAFFOLD with α = 1, and what c is whoever replies."""

import pytest

from fedamd.algorithms import Scaffold, ScaffoldM, ScaffoldMVR
from support import PAIR, TRIPLES, close, held, simulate, trajectory, witness

SETTINGS = {"eta_l": 0.1, "steps": 2, "alpha": 0.5, "start_up": "zeros"}


def test_two_rounds_of_scaffold_m_by_hand():
    """y ← y − 0.1·(0.5·(∇F_i(y) − c_i + c) + 0.5·m).

    x = 0:      as FedCM's first: x_1 = −0.09, m = 0.45;  c_0 = (−1 − 0.95)/2 = −0.975, c_1 = 2.775, c = 0.9.
    x = −0.09:  client 0, beside the gradient 0.9375 + 0.225 = 1.1625: −0.15175, −0.2104125;
                client 1, −0.9375 + 0.225 = −0.7125: −0.15525, −0.2107125.  x_2 = −0.2105625, m = 0.6028125.
    """
    assert close(trajectory(ScaffoldM(**SETTINGS), PAIR, rounds=2), [-0.09, -0.2105625])
    assert close(simulate(ScaffoldM(**SETTINGS), PAIR, rounds=1).state.c, [0.9])
    assert close(simulate(ScaffoldM(**SETTINGS), PAIR, rounds=2).state.m, [0.6028125])


def test_two_rounds_of_scaffold_m_vr_by_hand():
    """As FedAvg-M-VR's first: x_1 = −0.08, m = 0.4, and c_i as above. Then, with the correction ±0.9375,

    client 0, d = ∇F_0(y) + 0.7 + 0.9375: −0.13575, −0.185925;
    client 1, d = ∇F_1(y) − 1.3 − 0.9375: −0.13225, −0.168825.  x_2 = −0.177375.
    """
    assert close(trajectory(ScaffoldMVR(**SETTINGS), PAIR, rounds=2), [-0.08, -0.177375])


@pytest.mark.parametrize("method", [ScaffoldM, ScaffoldMVR])
@pytest.mark.parametrize("start_up", ["full", "zeros"])
def test_without_momentum_both_are_scaffold(method, start_up, crowd):
    how = {"eta_l": 0.1, "steps": 3, "small_batch": 1, "start_up": start_up}
    ours, theirs = method(**how, alpha=1.0), Scaffold(**how)
    assert close(trajectory(ours, crowd, rounds=5, cohort=3), trajectory(theirs, crowd, rounds=5, cohort=3))


def test_costs():
    """SCAFFOLD-M: A·K·b' gradients, down x, c, m, up Δ and a change: 5A vectors. VR: 2× the gradients, and x_{t−1}."""
    run = simulate(ScaffoldM(**SETTINGS, small_batch=1), TRIPLES, rounds=1)
    assert run.ledger.totals() == {"gradient_samples": 4, "bits_up": 4 * 64, "bits_down": 6 * 64}
    run = simulate(ScaffoldMVR(**SETTINGS, small_batch=1), TRIPLES, rounds=1)
    assert run.ledger.totals() == {"gradient_samples": 8, "bits_up": 4 * 64, "bits_down": 8 * 64}


@pytest.mark.parametrize("method", [ScaffoldM, ScaffoldMVR])
def test_missing_replies(method, crowd):
    """Invariant: c is the mean of all M c_i, replied or not; x moves by the mean of the Δ that came."""
    run, rounds = witness(method(steps=2, small_batch=2), crowd, rounds=40, cohort=2, failure_rate=0.3)
    assert {0, 1, 2} == {len(seen.replies["worker"]) for seen in rounds}
    assert close(run.state.c, held(run, "c").mean(0))
    for seen in rounds:
        workers = seen.replies["worker"]
        assert close(seen.before.x - seen.after.x, workers.delta.mean(0) if len(workers) else [0.0])
