"""FedPAGE: two rounds by hand, gradient descent with p = 1, costs, and missing replies."""

import pytest

from fedamd.algorithms import FedPAGE, MinibatchSGD
from fedamd.errors import FedamdError
from support import PAIR, client_gradient, close, optimum, simulate, trajectory, witness

NOT_FULL = {"p": 0.0}  # after round 0, which is always full


def test_two_rounds_by_hand():
    """η_s = 1/4, η_l = 0.1, K = 2, curvatures h = (1, 3).

    Round 0 is full: g_0 = 2·0 + 1 = 1, x_1 = −0.25.
    Round 1 is not. g_{i,0} = g_0 + h_i·(x_1 − x_0):
        client 0: 0.75; y = −0.325; g = 0.75 − 0.075 = 0.675; y = −0.3925; Δ = 0.1425.
        client 1: 0.25; y = −0.275; g = 0.25 − 0.075 = 0.175; y = −0.2925; Δ = 0.0425.
        g_1 = 0.0925/(2·0.1) = 0.4625;  x_2 = −0.25 − 0.115625 = −0.365625.
    """
    path = trajectory(FedPAGE(eta_s=0.25, eta_l=0.1, steps=2, **NOT_FULL), PAIR, rounds=2)
    assert close(path, [-0.25, -0.365625])


def test_always_full_is_gradient_descent(crowd):
    """p = 1: minibatch SGD of everyone on full batches, whatever the cohort."""
    page = trajectory(FedPAGE(eta_s=0.3, p=1.0), crowd, rounds=6, cohort=2)
    assert close(page, trajectory(MinibatchSGD(eta_s=0.3, steps=1, small_batch="full"), crowd, rounds=6))


def test_p_is_the_probability_of_a_full_round(crowd):
    """Of 100 rounds a quarter are full: within four standard deviations √(100·3/16) ≈ 4.3."""
    run = simulate(FedPAGE(eta_s=0.1, steps=1, p=0.25), crowd, rounds=100, cohort=1)
    full = sum("surveyor" in record.roles for record in run.records)
    assert 8 <= full <= 42
    assert "surveyor" in run.records[1].roles  # records[0] is the start-up


def test_costs():
    """Full round: M·b gradients and 2M vectors. Else A·(2b + 2·K·b') gradients, down x_t, x_{t−1}, g_{t−1} and up Δ:
    4A vectors. Here M = A = 2 and b = b' = 1."""
    full = simulate(FedPAGE(p=1.0), PAIR, rounds=3)
    assert full.ledger.totals() == {"gradient_samples": 3 * 2, "bits_up": 3 * 128, "bits_down": 3 * 128}
    mixed = simulate(FedPAGE(steps=5, **NOT_FULL), PAIR, rounds=2)
    assert mixed.ledger.totals() == {
        "gradient_samples": 2 + 2 * (2 + 2 * 5),
        "bits_up": 128 + 2 * 64,
        "bits_down": 128 + 6 * 64,
    }


def test_reaches_the_optimum_with_everyone(crowd):
    """Full batches and A = M: at a fixed point Δ = 0 for all means g = ∇F = 0."""
    run = simulate(FedPAGE(eta_s=0.5, eta_l=0.02, steps=2, small_batch="full"), crowd, rounds=60)
    assert close(run.state.x, optimum(crowd), 1e-9)


def test_missing_replies(crowd):
    """Invariants: x_{t+1} = x_t − η_s·g_t always; in a full round g_t is the mean gradient of those who replied;
    else it is their mean Δ/(K·η_l); x_{t−1} is the point before. Nothing changes where nobody replied, and round 0's
    full round is made up for if it was lost."""
    method = FedPAGE(eta_s=0.1, eta_l=0.05, steps=2, p=0.3)
    _, rounds = witness(method, crowd, rounds=60, cohort=2, failure_rate=0.3)
    silent = 0
    for seen in rounds:
        if full := seen.replies.get("surveyor"):
            wanted = sum(client_gradient(crowd, i, seen.before.x) for i in full.clients) / len(full)
        elif workers := seen.replies.get("worker"):
            wanted = workers.delta.mean(0) / 0.1
        else:
            silent += 1
            assert close(seen.after.x, seen.before.x)
            continue
        assert close(seen.after.g, wanted)
        assert close(seen.after.x, seen.before.x - 0.1 * wanted)
        assert close(seen.after.previous, seen.before.x)
    assert silent


def test_a_lost_first_round_is_made_up_for():
    """Nobody replies for some rounds (rate 0.9, two clients): the first round with a reply is a full one."""
    _, rounds = witness(FedPAGE(**NOT_FULL), PAIR, rounds=40, seed=1, failure_rate=0.9)
    first = next(seen for seen in rounds if any(len(replies) for replies in seen.replies.values()))
    assert first.t > 0
    assert set(first.replies) == {"surveyor"}


def test_refuses_a_probability_above_one():
    with pytest.raises(FedamdError, match=r"^p must lie in \[0, 1\], not 2\.0$"):
        FedPAGE(p=2.0)
