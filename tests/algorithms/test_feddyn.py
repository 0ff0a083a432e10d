"""FedDyn: two rounds by hand, and what h is whoever replies."""

import pytest

from fedamd.algorithms import FedDyn
from fedamd.errors import FedamdError
from support import PAIR, close, held, simulate, trajectory, witness


def test_two_rounds_by_hand():
    """α = 1, η_l = 0.1, K = 2: y ← y − 0.1·(∇F_i(y) − λ_i + y − x), which is
    0.8y + 0.1·(1 + λ_0 + x) on client 0 and 0.6y + 0.1·(x + λ_1 − 3) on client 1.

    x = 0, λ = 0:  client 0: 0.1, 0.18, Δ = −0.18 = λ_0;  client 1: −0.3, −0.48, Δ = 0.48 = λ_1.
                   h = (−0.18 + 0.48)/2 = 0.15;  x_1 = −0.15 − 0.15 = −0.3.
    x = −0.3:      client 0: −0.188, −0.0984, Δ = −0.2016, λ_0 = −0.3816;
                   client 1: −0.462, −0.5592, Δ = 0.2592, λ_1 = 0.7392.
                   h = 0.15 + 0.0576/2 = 0.1788;  x_2 = −0.3 − 0.0288 − 0.1788 = −0.5076.
    """
    assert close(trajectory(FedDyn(eta_l=0.1, steps=2, alpha=1.0), PAIR, rounds=2), [-0.3, -0.5076])
    run = simulate(FedDyn(eta_l=0.1, steps=2, alpha=1.0), PAIR, rounds=2)
    assert close(held(run, "lam"), [[-0.3816], [0.7392]])
    assert close(run.state.h, [0.1788])


def test_alpha_scales_the_memory():
    """α = 2 from 0: client 0: 0.1, 0.17; client 1: −0.3, −0.45. h = 2·(−0.17 + 0.45)/2 = 0.28, x_1 = −0.14 − 0.14."""
    run = simulate(FedDyn(eta_l=0.1, steps=2, alpha=2.0), PAIR, rounds=1)
    assert close(run.state.h, [0.28])
    assert close(run.state.x, [-0.28])


def test_missing_replies(crowd):
    """Invariant: h is the mean of all M λ_i, replied or not, and x_{t+1} = x_t − mean Δ − h/α."""
    run, rounds = witness(FedDyn(alpha=0.5, steps=2, small_batch=2), crowd, rounds=40, cohort=2, failure_rate=0.3)
    assert min(len(seen.replies["worker"]) for seen in rounds) == 0
    assert close(run.state.h, held(run, "lam").mean(0))
    for seen in rounds:
        workers = seen.replies["worker"]
        wanted = workers.delta.mean(0) + seen.after.h / 0.5 if len(workers) else [0.0]
        assert close(seen.before.x - seen.after.x, wanted)


def test_refuses_alpha_zero():
    with pytest.raises(FedamdError, match=r"^alpha must be a finite number above 0, not 0\.0$"):
        FedDyn(alpha=0.0)
