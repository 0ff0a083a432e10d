"""FedACG: two rounds by hand, FedProx without a look ahead."""

import pytest

from fedamd.algorithms import FedACG, FedProx
from fedamd.errors import FedamdError
from support import PAIR, TRIPLES, close, simulate, trajectory, witness

STEPS = {"eta_l": 0.1, "steps": 2}


def test_two_rounds_without_a_proximal_term_by_hand():
    """λ = 0.5. Round 0 is FedAvg's: x_1 = m = −0.16. Then z = −0.24 and Δ = 0.35·z + 0.16 = 0.076 (see test_fedopt):
    m = −0.08 − 0.076 = −0.156, x_2 = −0.316."""
    method = FedACG(**STEPS, lookahead=0.5, beta=0.0)
    assert close(trajectory(method, PAIR, rounds=2), [-0.16, -0.316])
    assert close(simulate(method, PAIR, rounds=2).state.m, [-0.156])


def test_the_proximal_term_by_hand():
    """β = 1 from z = 0: client 0: 0.1, 0.18;  client 1: −0.3, −0.48;  x_1 = −0.15."""
    assert close(trajectory(FedACG(**STEPS, beta=1.0), PAIR, rounds=1), [-0.15])


def test_without_a_look_ahead_it_is_fedprox(crowd):
    how = {"eta_l": 0.1, "steps": 3, "small_batch": 1}
    ours = trajectory(FedACG(**how, lookahead=0.0, beta=0.3), crowd, rounds=5, cohort=3)
    assert close(ours, trajectory(FedProx(**how, mu=0.3), crowd, rounds=5, cohort=3))


def test_costs():
    """As FedAvg: A·K·b' gradients, 2A vectors: the momentum travels inside the model."""
    run = simulate(FedACG(**STEPS, small_batch=1), TRIPLES, rounds=1)
    assert run.ledger.totals() == {"gradient_samples": 4, "bits_up": 2 * 64, "bits_down": 2 * 64}


def test_missing_replies(crowd):
    """m is always the last move that was made; a round without replies changes nothing."""
    _, rounds = witness(FedACG(**STEPS, small_batch=2), crowd, rounds=40, cohort=2, failure_rate=0.3)
    for seen in rounds:
        if len(workers := seen.replies["worker"]):
            assert close(seen.after.m, 0.85 * seen.before.m - workers.delta.mean(0))
            assert close(seen.after.x, seen.before.x + seen.after.m)
        else:
            assert close(seen.after.x, seen.before.x)
            assert close(seen.after.m, seen.before.m)


def test_refuses_a_look_beyond():
    with pytest.raises(FedamdError, match=r"^lookahead must lie in \[0, 1\], not 1.5$"):
        FedACG(lookahead=1.5)
