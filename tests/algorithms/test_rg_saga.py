"""RG-SAGA: two rounds by hand, the exact gradient with everyone, and what the table is whoever replies."""

import pytest

from fedamd.algorithms import RGSAGA
from fedamd.errors import FedamdError
from support import PAIR, TRIPLES, close, held, simulate, trajectory, witness

SETTINGS = {"eta_l": 0.1, "steps": 2, "beta": 0.5}


def test_two_rounds_by_hand():
    """b = (−1, 3), g = 1 at first; y ← y − 0.1·(h_i·(y − x) + g).

    x = 0:      nothing has changed, g = 1.  Both start −0.1; client 0: −0.19; client 1: −0.17.  x_1 = −0.18.
    x = −0.18:  SAGA's estimate at 0 is 1 still; g = 0.5 + 0.5 + 2·(−0.18) = 0.64.
                Both start −0.244; client 0: −0.3016; client 1: −0.2888.  x_2 = −0.2952.
    """
    assert close(trajectory(RGSAGA(**SETTINGS), PAIR, rounds=2), [-0.18, -0.2952])


def test_the_proximal_term_by_hand():
    """μ = 1: both start −0.1; client 0: −0.1 − 0.1·(−0.1 + 1 − 0.1) = −0.18; client 1: −0.16.  x_1 = −0.17."""
    assert close(trajectory(RGSAGA(**SETTINGS, mu=1.0), PAIR, rounds=1), [-0.17])


def test_from_zeros_by_hand():
    """b_i = g = 0: SAGA's estimate at x_0 is ∇F(0) = 1, g = 0.5 at once: y = −0.05; −0.095 and −0.085.  x_1 = −0.09."""
    assert close(trajectory(RGSAGA(**SETTINGS, start_up="zeros"), PAIR, rounds=1), [-0.09])


def test_with_everyone_the_estimate_is_the_gradient():
    """∇F = 2x + 1 on PAIR; g of round t is at the x that round began with."""
    _, rounds = witness(RGSAGA(**SETTINGS), PAIR, rounds=6)
    for seen in rounds:
        assert close(seen.after.g, 2 * seen.before.x + 1)


def test_costs():
    """A·(2b + 2K·b') gradients; down x, x_{t−1}, then g, up two changes, then Δ: 6A vectors. Here b = 3, b' = 1."""
    run = simulate(RGSAGA(**SETTINGS, small_batch=1), TRIPLES, rounds=1)
    assert run.ledger.totals() == {"gradient_samples": 12 + 8, "bits_up": 6 * 64, "bits_down": 6 * 64}
    assert run.start_up.totals() == {"gradient_samples": 6, "bits_up": 2 * 64, "bits_down": 2 * 64}


@pytest.mark.parametrize("start_up", ["full", "zeros"])
def test_missing_replies(start_up, crowd):
    """Invariant: b is the mean of all M b_i, replied or not."""
    method = RGSAGA(eta_l=0.02, steps=2, small_batch=2, start_up=start_up)
    run, rounds = witness(method, crowd, rounds=40, cohort=2, failure_rate=0.3)
    assert {0, 1, 2} == {len(seen.replies["surveyor"]) for seen in rounds}
    assert close(run.state.b, held(run, "b").mean(0))


def test_refuses_an_impossible_share():
    with pytest.raises(FedamdError, match=r"^beta must lie in \[0, 1\], not 2.0$"):
        RGSAGA(beta=2.0)
