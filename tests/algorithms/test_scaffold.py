"""SCAFFOLD: two rounds by hand of each variant, FedAvg without variates, and what c is whoever replies."""

import pytest
import torch

from fedamd.algorithms import FedAvg, Scaffold
from fedamd.errors import FedamdError
from support import PAIR, TRIPLES, client_gradient, close, held, simulate, trajectory, witness

STEPS = {"eta_l": 0.1, "steps": 2}


def test_two_rounds_of_option_ii_from_zero_by_hand():
    """η_l = 0.1, K = 2: y ← y − 0.1·(∇F_i(y) − c_i + c).

    x = 0:      no correction yet. Client 0: gradient −1, y = 0.1; −0.9, y = 0.19.
                client 1: gradient 3, y = −0.3; 2.1, y = −0.51.
                x_1 = −0.16;  c_0 = −0.95, c_1 = 2.55, c = 0.8.
    x = −0.16:  client 0, correction 0.8 + 0.95 = 1.75: gradient −1.16, y = −0.219; −1.219, y = −0.2721.
                client 1, correction 0.8 − 2.55 = −1.75: gradient 2.52, y = −0.237; 2.289, y = −0.2909.
                x_2 = −0.2815;  c_0 = −1.1895, c_1 = 2.4045, c = 0.6075.
    """
    method = Scaffold(**STEPS, start_up="zeros")
    assert close(trajectory(method, PAIR, rounds=2), [-0.16, -0.2815])
    run = simulate(method, PAIR, rounds=2)
    assert close(held(run, "c"), [[-1.1895], [2.4045]])
    assert close(run.state.c, [0.6075])


def test_two_rounds_of_option_i_from_zero_by_hand():
    """The new c_i is ∇F_i(x_t): after round 1 c_0 = −1, c_1 = 3, c = 1, where x_0 = 0 and x_1 = −0.16.

    x = −0.16:  client 0, correction 2: −0.244, −0.3196;  client 1, correction −2: −0.212, −0.2484.
                x_2 = −0.284;  c_0 = −1.16, c_1 = 2.52, c = 0.68.
    """
    method = Scaffold(**STEPS, option="I", start_up="zeros")
    assert close(trajectory(method, PAIR, rounds=2), [-0.16, -0.284])
    run = simulate(method, PAIR, rounds=2)
    assert close(held(run, "c"), [[-1.16], [2.52]])
    assert close(run.state.c, [0.68])


def test_two_rounds_from_the_full_gradients_by_hand():
    """The variant of Wu et al.: c_0 = ∇F_0(0) = −1, c_1 = 3, c = 1 at the start; option II.

    x = 0:      client 0, correction 2: gradient −1, y = −0.1; −1.1, y = −0.19.
                client 1, correction −2: gradient 3, y = −0.1; 2.7, y = −0.17.
                x_1 = −0.18;  c_0 = −1.05, c_1 = 2.85, c = 0.9.
    x = −0.18:  client 0, correction 1.95: gradient −1.18, y = −0.257; −1.257, y = −0.3263.
                client 1, correction −1.95: gradient 2.46, y = −0.231; 2.307, y = −0.2667.
                x_2 = −0.2965;  c_0 = −1.2185, c_1 = 2.3835, c = 0.5825.
    """
    assert close(trajectory(Scaffold(**STEPS), PAIR, rounds=2), [-0.18, -0.2965])
    assert close(simulate(Scaffold(**STEPS), PAIR, rounds=2).state.c, [0.5825])


def test_option_ii_is_the_formula_of_the_paper(crowd):
    """c_i⁺ = c_i − c + Δ/(K·η_l), on random batches."""
    _, rounds = witness(Scaffold(eta_l=0.1, steps=3, small_batch=1), crowd, rounds=1, cohort=5)
    workers = rounds[0].replies["worker"]
    assert close(workers.change, workers.delta / 0.3 - rounds[0].before.c)


def test_zero_variates_are_fedavg(crowd):
    """All variates set back to zero after every round: FedAvg to the bit, on random batches."""

    def forget(run, _):
        run.state = run.state.next(c=torch.zeros_like(run.state.c))
        run.site.store.write(range(5), {"c": torch.zeros(5, 1, dtype=torch.float64)})
        points.append(run.state.x)

    points = []
    how = {"eta_l": 0.1, "steps": 3, "small_batch": 1}
    simulate(Scaffold(**how, start_up="zeros"), crowd, rounds=5, cohort=3, listen=forget)
    assert torch.equal(torch.stack(points[1:]), trajectory(FedAvg(**how), crowd, rounds=5, cohort=3))


def test_costs():
    """A round: A·K·b' gradients; down x, c and up Δ and the change of c_i: 4A vectors. Option I adds A·b gradients. The
    start-up pass (M·b gradients, a vector each way and client) stands on its own. Here M = A = 2, b' = 1, b = 3."""
    run = simulate(Scaffold(**STEPS, small_batch=1), TRIPLES, rounds=1)
    assert run.ledger.totals() == {"gradient_samples": 4, "bits_up": 4 * 64, "bits_down": 4 * 64}
    assert run.start_up.totals() == {"gradient_samples": 6, "bits_up": 2 * 64, "bits_down": 2 * 64}
    first = simulate(Scaffold(**STEPS, small_batch=1, option="I", start_up="zeros"), TRIPLES, rounds=1)
    assert first.ledger.totals() == {"gradient_samples": 4 + 6, "bits_up": 4 * 64, "bits_down": 4 * 64}
    assert first.start_up.gradient_samples == 0


@pytest.mark.parametrize("option", ["I", "II"])
@pytest.mark.parametrize("start_up", ["full", "zeros"])
def test_missing_replies(option, start_up, crowd):
    """Invariant: c is the mean of all M c_i, replied or not; x moves by the mean of the Δ that came."""
    method = Scaffold(option=option, start_up=start_up, steps=2, small_batch=2)
    run, rounds = witness(method, crowd, rounds=40, cohort=2, failure_rate=0.3)
    assert {0, 1, 2} == {len(seen.replies["worker"]) for seen in rounds}
    assert close(run.state.c, held(run, "c").mean(0))
    for seen in rounds:
        workers = seen.replies["worker"]
        assert close(seen.before.x - seen.after.x, workers.delta.mean(0) if len(workers) else [0.0])


def test_missing_replies_at_the_start(crowd):
    """Who missed the start-up holds c_i = 0; the others hold ∇F_i(x_0); c is the mean over all five."""

    def look(run, record):
        if record.round == -1:
            absent.extend(run.site.store.fresh(range(5)))
            wanted = [0.0 if gone else client_gradient(crowd, i, 0.0).item() for i, gone in enumerate(absent)]
            assert close(held(run, "c"), wanted)
            assert close(run.state.c, held(run, "c").mean(0))

    absent = []
    simulate(Scaffold(), crowd, rounds=1, cohort=5, failure_rate=0.3, listen=look)
    assert 0 < sum(absent) < 5


def test_refuses_another_option():
    with pytest.raises(FedamdError, match=r"^option must be one of I, II, not 'III'$"):
        Scaffold(option="III")
