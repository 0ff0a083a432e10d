"""STEM: two rounds by hand, local SGD with a = 1, and what happens to missing replies."""

import pytest

from fedamd.algorithms import STEM
from fedamd.errors import FedamdError
from support import PAIR, TRIPLES, close, simulate, trajectory, witness

SETTINGS = {"eta_l": 0.1, "steps": 2, "a": 0.5}


def test_two_rounds_by_hand():
    """d = ∇F(0) = 1 at first; y ← y − 0.1·d; d ← ∇F_i(y) + 0.5·(d − ∇F_i(before)).

    x = 0:      client 0: y = −0.1, d = −1.1 + 0.5·2 = −0.1; y = −0.09, d = −1.09 + 0.5 = −0.59.
                client 1: y = −0.1, d = 2.7 − 1 = 1.7; y = −0.27, d = 2.19 − 0.5 = 1.69.  x_1 = −0.18, d = 0.55.
    x = −0.18:  client 0: y = −0.235, d = −0.37; y = −0.198, d = −0.7655.
                client 1: y = −0.235, d = 1.34; y = −0.369, d = 1.4155.  x_2 = −0.2835, d = 0.325.
    """
    assert close(trajectory(STEM(**SETTINGS), PAIR, rounds=2), [-0.18, -0.2835])
    assert close(simulate(STEM(**SETTINGS), PAIR, rounds=2).state.d, [0.325])


def test_from_zeros_the_first_step_stands_still():
    """d = 0: y = 0, d = ∇F_i(0)/2 = (−0.5, 1.5) with a = 0.5; y = (0.05, −0.15);  x_1 = −0.05."""
    assert close(trajectory(STEM(**SETTINGS, start_up="zeros"), PAIR, rounds=1), [-0.05])


def test_costs():
    """2·A·K·b' gradients; x and d both ways: 4A vectors. The start-up: M·b gradients, 2M vectors."""
    run = simulate(STEM(**SETTINGS, small_batch=1), TRIPLES, rounds=1)
    assert run.ledger.totals() == {"gradient_samples": 8, "bits_up": 4 * 64, "bits_down": 4 * 64}
    assert run.start_up.totals() == {"gradient_samples": 6, "bits_up": 2 * 64, "bits_down": 2 * 64}


def test_missing_replies(crowd):
    """x and d are means of what came; nothing changes where nothing came."""
    _, rounds = witness(STEM(eta_l=0.05, steps=2, small_batch=2), crowd, rounds=40, cohort=2, failure_rate=0.3)
    assert {0, 1, 2} == {len(seen.replies["worker"]) for seen in rounds}
    for seen in rounds:
        workers = seen.replies["worker"]
        assert close(seen.before.x - seen.after.x, workers.delta.mean(0) if len(workers) else [0.0])
        assert close(seen.after.d, workers.d.mean(0) if len(workers) else seen.before.d)


def test_refuses_an_estimate_that_never_forgets():
    with pytest.raises(FedamdError, match=r"^a must be a finite number above 0"):
        STEM(a=0.0)
