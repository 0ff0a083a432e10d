"""Mime and MimeLite: two rounds by hand, and what happens to missing replies."""

import pytest
import torch

from fedamd.algorithms import FedAvg, FedLin, Mime, MimeLite
from fedamd.errors import FedamdError
from support import PAIR, TRIPLES, close, simulate, trajectory, witness

SETTINGS = {"eta_l": 0.1, "steps": 2, "beta": 0.5}


def test_two_rounds_of_mime_by_hand():
    """β = 0.5, η_l = 0.1, K = 2: y ← y − 0.1·(0.5·(h_i·(y − x) + c) + 0.5·s), with curvatures h = (1, 3).

    x = 0:       c = (−1 + 3)/2 = 1, s = 0.  Both start −0.05; client 0: −0.0975; client 1: −0.0925.
                 x_1 = −0.095, s = 0.5.
    x = −0.095:  c = 2·(−0.095) + 1 = 0.81.  Both start −0.095 − 0.05·(0.81 + 0.5) = −0.1605;
                 client 0: −0.1605 − 0.05·(1.31 − 0.0655) = −0.222725;
                 client 1: −0.1605 − 0.05·(1.31 − 0.1965) = −0.216175.
                 x_2 = −0.21945, s = 0.405 + 0.25 = 0.655.
    """
    assert close(trajectory(Mime(**SETTINGS), PAIR, rounds=2), [-0.095, -0.21945])
    assert close(simulate(Mime(**SETTINGS), PAIR, rounds=2).state.s, [0.655])


def test_two_rounds_of_mimelite_by_hand():
    """As above with y ← y − 0.05·(∇F_i(y) + s).

    x = 0, s = 0:         client 0: 0.05, 0.0975;  client 1: −0.15, −0.2775;  x_1 = −0.09;  c = 1, s = 0.5.
    x = −0.09, s = 0.5:   client 0: −0.0605, −0.032475;  client 1: −0.2515, −0.388775;  x_2 = −0.210625.
                          c = 2·(−0.09) + 1 = 0.82, s = 0.41 + 0.25 = 0.66.
    """
    assert close(trajectory(MimeLite(**SETTINGS), PAIR, rounds=2), [-0.09, -0.210625])
    assert close(simulate(MimeLite(**SETTINGS), PAIR, rounds=2).state.s, [0.66])


def test_without_momentum_mimelite_is_fedavg(crowd):
    """β = 0: y ← y − η_l·∇f_i(y; B), to the bit on random batches."""
    lite = trajectory(MimeLite(eta_l=0.1, steps=3, small_batch=1, beta=0.0), crowd, rounds=4, cohort=3)
    assert torch.equal(lite, trajectory(FedAvg(eta_l=0.1, steps=3, small_batch=1), crowd, rounds=4, cohort=3))


def test_without_momentum_mime_is_fedlin_on_full_batches(crowd):
    """β = 0 and b' = n: ∇F_i(y) − ∇F_i(x) + c is FedLin's direction."""
    mime = trajectory(Mime(eta_l=0.1, steps=3, small_batch="full", beta=0.0), crowd, rounds=4, cohort=3)
    assert close(mime, trajectory(FedLin(eta_l=0.1, steps=3, small_batch="full"), crowd, rounds=4, cohort=3))


def test_costs_of_a_round():
    """Mime: A·(b + 2·K·b') gradients; down x, then x, c, s; up a gradient, then Δ: 6A vectors.
    MimeLite: A·(b + K·b') gradients; down x and s, up Δ and a gradient: 4A vectors. Here A = 2, b' = 1, b = 3."""
    mime, lite = (simulate(method(**SETTINGS, small_batch=1), TRIPLES, rounds=1) for method in (Mime, MimeLite))
    assert mime.ledger.totals() == {"gradient_samples": 2 * (3 + 4), "bits_up": 4 * 64, "bits_down": 8 * 64}
    assert lite.ledger.totals() == {"gradient_samples": 2 * (3 + 2), "bits_up": 4 * 64, "bits_down": 4 * 64}


@pytest.mark.parametrize("method", [Mime, MimeLite])
def test_missing_replies(method, crowd):
    """Invariants: s ← 0.5·c + 0.5·s with c the mean of the gradients that came, x moves by the mean of the Δ that came;
    with no reply neither changes; Mime's second exchange asks those alone who answered the first."""
    _, rounds = witness(method(**SETTINGS), crowd, rounds=40, cohort=2, failure_rate=0.3)
    silent = 0
    for seen in rounds:
        gradients = seen.replies["surveyor" if method is Mime else "worker"]
        if not len(gradients):
            silent += 1
            assert close(seen.after.x, seen.before.x)
            assert close(seen.after.s, seen.before.s)
            continue
        assert seen.replies["worker"].clients == gradients.clients
        assert close(seen.after.s, 0.5 * gradients.gradient.mean(0) + 0.5 * seen.before.s)
        assert close(seen.before.x - seen.after.x, seen.replies["worker"].delta.mean(0))
    assert silent


def test_refuses_a_momentum_above_one():
    with pytest.raises(FedamdError, match=r"^beta must lie in \[0, 1\], not 1\.5$"):
        Mime(beta=1.5)
