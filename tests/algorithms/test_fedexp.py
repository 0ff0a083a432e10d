"""FedExP: a round by hand, FedAvg where clients agree, and the mean of two models that is evaluated."""

from itertools import pairwise

import pytest
import torch

from fedamd.algorithms import FedAvg, FedExP
from fedamd.errors import FedamdError
from support import PAIR, TRIPLES, close, quadratic_problem, simulate, trajectory, witness

STEPS = {"eta_l": 0.1, "steps": 2}
ALIKE = quadratic_problem([(1.0, 1.0)], [(1.0, 1.0)])


def test_a_round_by_hand():
    """Δ = (−0.19, 0.51), Δ̄ = 0.16: e = (0.0361 + 0.2601)/(4·(0.0256 + 0.001)) = 0.2962/0.1064."""
    assert close(trajectory(FedExP(**STEPS), PAIR, rounds=1), [-0.16 * 0.2962 / 0.1064])


def test_clients_that_agree_are_averaged():
    """Equal Δ: Σ‖Δ_i‖²/(2A‖Δ̄‖²) = ½, so e = 1."""
    assert torch.equal(trajectory(FedExP(**STEPS), ALIKE, rounds=4), trajectory(FedAvg(**STEPS), ALIKE, rounds=4))


def test_the_mean_of_the_last_two_models_is_evaluated():
    """The test loss of round t is that of (x_t + x_{t−1})/2, on samples (1, 1) and (−1, 3); at first that of x_0."""

    def loss(x: float) -> float:
        return ((x - 1) ** 2 / 2 + 3 * (x + 1) ** 2 / 2) / 2

    points = []
    run = simulate(FedExP(**STEPS), PAIR, rounds=3, listen=lambda run, _: points.append(run.state.x.item()))
    middles = [points[0], *((one + other) / 2 for one, other in pairwise(points))]
    assert [record.test_loss for record in run.records] == pytest.approx([loss(x) for x in middles], abs=1e-12)


def test_costs():
    """As FedAvg: A·K·b' gradients, 2A vectors."""
    run = simulate(FedExP(**STEPS, small_batch=1), TRIPLES, rounds=1)
    assert run.ledger.totals() == {"gradient_samples": 4, "bits_up": 2 * 64, "bits_down": 2 * 64}


def test_missing_replies(crowd):
    """e counts those that came; one alone is not extrapolated, none moves nothing."""
    _, rounds = witness(FedExP(**STEPS, small_batch=2), crowd, rounds=40, cohort=2, failure_rate=0.3)
    assert {0, 1, 2} == {len(seen.replies["worker"]) for seen in rounds}
    for seen in rounds:
        workers = seen.replies["worker"]
        if len(workers) < 2:
            assert close(seen.before.x - seen.after.x, workers.delta[0] if len(workers) else [0.0])


def test_refuses_no_bound():
    with pytest.raises(FedamdError, match=r"^epsilon must be a finite number above 0"):
        FedExP(epsilon=0.0)
