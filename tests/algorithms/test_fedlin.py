"""FedLin: two rounds by hand, costs, and missing replies."""

from fedamd.algorithms import FedLin
from support import PAIR, TRIPLES, client_gradient, close, simulate, trajectory, witness


def test_two_rounds_by_hand():
    """η_l = 0.1, K = 2: y ← y − 0.1·(∇F_i(y) − ∇F_i(x) + g), with ∇F_i(y) − ∇F_i(x) = h_i·(y − x), h = (1, 3).

    x = 0:      g = (−1 + 3)/2 = 1. Both start −0.1; client 0: −0.1 − 0.1·0.9 = −0.19; client 1: −0.1 − 0.1·0.7 = −0.17.
                x_1 = −0.18.
    x = −0.18:  g = 0.64. Both start −0.244; client 0: −0.244 − 0.0576 = −0.3016; client 1: −0.244 − 0.0448 = −0.2888.
                x_2 = −0.2952.
    """
    assert close(trajectory(FedLin(eta_l=0.1, steps=2), PAIR, rounds=2), [-0.18, -0.2952])


def test_costs_of_a_round():
    """A·(b + K·b') gradients; down x and g, up g_i and Δ: 4A vectors, for clients keep x between the two exchanges.
    Here A = 2, b' = 1, b = 3."""
    run = simulate(FedLin(eta_l=0.1, steps=2, small_batch=1), TRIPLES, rounds=1)
    assert run.ledger.totals() == {"gradient_samples": 2 * (3 + 2), "bits_up": 4 * 64, "bits_down": 4 * 64}


def test_missing_replies(crowd):
    """Invariants: g is the mean gradient at x_t of those who replied, and they alone are asked to walk; x moves by
    the mean of their Δ. With K = 1 and full batches that is a gradient step of those clients."""
    run, rounds = witness(FedLin(eta_l=0.1, steps=1, small_batch="full"), crowd, rounds=40, cohort=2, failure_rate=0.3)
    assert {0, 1, 2} == {len(seen.replies["surveyor"]) for seen in rounds}
    for seen in rounds:
        there = seen.replies["surveyor"].clients
        wanted = sum(client_gradient(crowd, i, seen.before.x) for i in there) / max(len(there), 1)
        assert close(seen.before.x - seen.after.x, 0.1 * wanted)
        assert not there or seen.replies["worker"].clients == there
    asked = sum(2 + len(seen.replies["surveyor"]) for seen in rounds)
    assert run.ledger.bits_down == 64 * asked
