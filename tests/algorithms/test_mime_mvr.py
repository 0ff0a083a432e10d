"""MimeMVR: two rounds by hand, FedLin's kind of step with a = 1, and what happens to missing replies."""

from fedamd.algorithms import Mime, MimeMVR
from support import PAIR, TRIPLES, close, simulate, trajectory, witness

SETTINGS = {"eta_l": 0.1, "steps": 2, "a": 0.5}


def test_two_rounds_by_hand():
    """y ← y − 0.1·(h_i·(y − x) + m), with curvatures h = (1, 3); ∇F = 2x + 1.

    x = 0:      m = 1 − 0.5·1 = 0.5.  Both start −0.05; client 0: −0.095; client 1: −0.085.  x_1 = −0.09.
    x = −0.09:  m = 0.82 − 0.5·1 + 0.5·0.5 = 0.57.  Both start −0.147; client 0: −0.1983; client 1: −0.1869.
                x_2 = −0.1926.
    """
    assert close(trajectory(MimeMVR(**SETTINGS), PAIR, rounds=2), [-0.09, -0.1926])
    assert close(simulate(MimeMVR(**SETTINGS), PAIR, rounds=2).state.m, [0.57])


def test_without_memory_it_is_mime_without_momentum(crowd):
    """a = 1: m is the mean gradient at x_t, which is Mime's c; β = 0 there leaves it alone."""
    how = {"eta_l": 0.1, "steps": 3, "small_batch": 1}
    ours = trajectory(MimeMVR(**how, a=1.0), crowd, rounds=5, cohort=3)
    assert close(ours, trajectory(Mime(**how, beta=0.0), crowd, rounds=5, cohort=3))


def test_costs():
    """A·(2b + 2K·b') gradients; down x, x_{t−1}, then m, up a part, then Δ: 5A vectors. Here b = 3, b' = 1."""
    run = simulate(MimeMVR(**SETTINGS, small_batch=1), TRIPLES, rounds=1)
    assert run.ledger.totals() == {"gradient_samples": 12 + 8, "bits_up": 4 * 64, "bits_down": 6 * 64}


def test_missing_replies(crowd):
    """m follows the parts that came, x the mean of the Δ that came; a round without parts changes nothing."""
    method = MimeMVR(eta_l=0.05, steps=2, small_batch=2, a=0.3)
    _, rounds = witness(method, crowd, rounds=40, cohort=2, failure_rate=0.3)
    assert {0, 1, 2} == {len(seen.replies["surveyor"]) for seen in rounds}
    for seen in rounds:
        parts, workers = seen.replies["surveyor"], seen.replies.get("worker", ())
        assert close(seen.after.m, parts.part.mean(0) + 0.7 * seen.before.m if len(parts) else seen.before.m)
        assert close(seen.before.x - seen.after.x, workers.delta.mean(0) if len(workers) else [0.0])
