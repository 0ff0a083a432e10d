"""Rounds to ε, and trajectories against gradient descent by hand."""

import math

import pytest
import torch

from fedamd.oracles.objective import flat_parameters
from fedamd.studies.theory_check.problems import quadratic_problem
from fedamd.studies.theory_check.trajectory import Arm, rounds_to, slope, watch


def test_rounds_to() -> None:
    """Reached at t = 2 and t = 1: mean 1.5, standard error ½, and t(0.975; 1) = 12.706."""
    found = rounds_to(torch.tensor([[5.0, 3.0, 1.0], [5.0, 2.0, 9.0]]), 2.0)
    assert found.value == 1.5
    assert [found.low, found.high] == pytest.approx([1.5 - 6.353, 1.5 + 6.353], abs=1e-3)


def test_a_seed_that_does_not_get_there_leaves_no_number() -> None:
    assert rounds_to(torch.tensor([[5.0, 1.0], [5.0, 3.0]]), 2.0).value is None
    assert rounds_to(torch.tensor([[5.0, math.nan]]), 2.0).value is None


def test_slope() -> None:
    """Through (0, 1), (1, 2), (2, 6): Σ(x − 1)·y / Σ(x − 1)² = (−1 + 6)/2."""
    assert slope([0, 1, 2], [1, 2, 6]) == 2.5


def test_curves_of_gradient_descent() -> None:
    """K = 1, everyone takes part, τ = 2: round 0 fills the cache with ∇F(x_0), round 1 steps along it, and so on.

    Curvatures are diagonal with mean h̄, so a step multiplies x − x* by 1 − η_s·η_l·h̄ in every direction.
    """
    problem = quadratic_problem(clients=4, samples=3, dimension=2, mu=0.5, sigma=1.0)
    arm = Arm.of(4, 4, name="fedamd", steps=1, small_batch=1, eta_l=0.5, eta_s=0.6, tau=2)
    curves = watch(problem, [arm, arm], seeds=2)[arm]
    constants = problem.dataset.constants
    assert constants is not None
    curvature = torch.tensor([0.5, 1.0], dtype=torch.float64)
    distance = flat_parameters(problem.model).detach() - constants.optimum
    steps = torch.tensor([0, 0, 1, 1, 2])  # taken before t = 0 … 4
    path = distance * (1 - 0.3 * curvature) ** steps.unsqueeze(1)
    for seed in range(2):
        torch.testing.assert_close(curves.gap[seed], 0.5 * (curvature * path**2).sum(1))
        torch.testing.assert_close(curves.gradient[seed], (curvature * path).square().sum(1))


def test_divergence_is_not_a_number() -> None:
    problem = quadratic_problem(clients=2, samples=2, dimension=2, mu=0.5, sigma=1.0)
    arm = Arm.of(2, 12, name="fedavg", steps=1, small_batch=1, eta_l=1e60, eta_s=1.0)
    curves = watch(problem, [arm], seeds=1)[arm]
    assert curves.gap.shape == (1, 13)
    assert not curves.gap[0, -1].isfinite()


def test_progress_ends_at_one() -> None:
    problem = quadratic_problem(clients=2, samples=2, dimension=2, mu=0.5, sigma=1.0)
    arm = Arm.of(2, 50, name="fedavg", steps=1, small_batch=1, eta_l=0.1, eta_s=1.0)
    seen: list[float] = []
    watch(problem, [arm], 2, seen.append)
    assert seen[-1] == 1.0
