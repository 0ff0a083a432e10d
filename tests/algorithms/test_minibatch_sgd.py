"""Minibatch SGD: two rounds by hand, the mean of its minibatches, and missing replies."""

from fedamd.algorithms import FedAMD, FedAvg, MinibatchSGD
from support import PAIR, close, quadratic_problem, simulate, trajectory, witness


def test_two_rounds_by_hand():
    """η_s = 1/4 and ∇F = 2x + 1: x_1 = −1/4; ∇F = 1/2, x_2 = −3/8."""
    assert close(trajectory(MinibatchSGD(eta_s=0.25, steps=3), PAIR, rounds=2), [-0.25, -0.375])


def test_all_minibatches_are_at_the_same_point(crowd):
    """One batch a client is one step of FedAvg with the same samples, η_l = η_s."""
    one = trajectory(MinibatchSGD(eta_s=0.1, steps=1, small_batch=1), crowd, rounds=5, cohort=3)
    assert close(one, trajectory(FedAvg(eta_l=0.1, steps=1, small_batch=1), crowd, rounds=5, cohort=3))


def test_batches_are_averaged():
    """ℓ has gradients x − 1 and x − 3 on the two samples: the mean of K single-sample gradients at 0 is in [−3, −1],
    and of the form −(1 + 2j/K). With K = 64 it is neither end."""
    data = quadratic_problem([(1.0, 1.0), (3.0, 1.0)])
    (x,) = trajectory(MinibatchSGD(eta_s=1.0, steps=64, small_batch=1), data, rounds=1)
    threes = (x.item() - 1) * 32
    assert abs(threes - round(threes)) < 1e-9
    assert 16 <= threes <= 48


def test_is_fedamd_with_one_local_step_and_everyone(crowd):
    """§3.3 of the paper: A = M, p = 1, 0, 1, 0, … and K = 1: every second round is one step of size η_l along ∇F."""
    fedamd = trajectory(FedAMD(eta_l=0.1, steps=1, small_batch="full", tau=2), crowd, rounds=10)
    assert close(fedamd[1::2], trajectory(MinibatchSGD(eta_s=0.1, steps=1, small_batch="full"), crowd, rounds=5))


def test_costs_of_a_round():
    """A·K·b' gradients and 2A vectors."""
    run = simulate(MinibatchSGD(steps=3), PAIR, rounds=1)
    assert run.ledger.totals() == {"gradient_samples": 6, "bits_up": 128, "bits_down": 128}


def test_missing_replies(crowd):
    """Invariant: x_{t+1} = x_t − η_s·mean of the gradients that came; with none, x_{t+1} = x_t."""
    _, rounds = witness(MinibatchSGD(eta_s=0.1, steps=2), crowd, rounds=40, cohort=2, failure_rate=0.3)
    assert {0, 1, 2} == {len(seen.replies["worker"]) for seen in rounds}
    for seen in rounds:
        workers = seen.replies["worker"]
        assert close(seen.before.x - seen.after.x, 0.1 * workers.gradient.mean(0) if len(workers) else [0.0])
