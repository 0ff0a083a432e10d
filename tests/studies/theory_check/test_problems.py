"""The constants of the grounds, against derivatives computed by other means."""

import pytest
import torch
from torch import Tensor

from fedamd.oracles.objective import Objective, flat_parameters
from fedamd.studies.theory_check.problems import SyntheticProblem, quadratic_problem, tail_problem


@pytest.fixture(scope="module")
def tail() -> SyntheticProblem:
    return tail_problem(clients=3, samples=5, dimension=2, s=0.3)


def hessians(problem: SyntheticProblem, x: Tensor) -> Tensor:
    """∇²ℓ of every sample, (M, n, d, d)."""
    objective = Objective(problem.model, 0)
    rows = [
        torch.func.jacrev(torch.func.jacrev(lambda at, z=z: objective.at(at, z[None], torch.zeros(1))[0][0]))(x)
        for z in problem.dataset.inputs
    ]
    return torch.stack(rows).reshape(problem.clients, problem.samples, len(x), len(x))


def points() -> Tensor:
    return 3 * torch.randn(8, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_smoothness_is_attained_at_the_origin_and_nowhere_exceeded(tail: SyntheticProblem) -> None:
    """φ''(0) = −s for every sample, where |φ''| is largest."""
    spectral = [torch.linalg.matrix_norm(hessians(tail, x).mean(1), 2).max().item() for x in points()]
    at_origin = torch.linalg.matrix_norm(hessians(tail, torch.zeros(2, dtype=torch.float64)).mean(1), 2).max().item()
    assert at_origin == pytest.approx(tail.L)
    assert max(spectral) <= tail.L


def test_average_smoothness_and_noise_hold_everywhere(tail: SyntheticProblem) -> None:
    objective = Objective(tail.model, 0)
    for x in points():
        each = hessians(tail, x)
        deviations = each - each.mean(1, keepdim=True)
        spread = torch.linalg.matrix_norm((deviations @ deviations).mean(1), 2).sqrt().max().item()
        gradient = torch.func.jacrev(lambda at: objective.at(at, tail.dataset.inputs, tail.dataset.targets)[0])(x)
        own = gradient.reshape(tail.clients, tail.samples, 2)
        noise = (own - own.mean(1, keepdim=True)).square().sum(-1).mean(1).sqrt().max().item()
        assert spread <= tail.L_sigma
        assert noise <= tail.sigma


def test_values_and_gradients(tail: SyntheticProblem) -> None:
    """F = (1/N)·Σ(1 + u²)^{−s/2}, ∇F = −(s/N)·Σ u·(1 + u²)^{−s/2−1}·z, written out."""
    x = points()
    u = x @ tail.dataset.inputs.T
    weight = -0.3 * u * (1 + u**2) ** (-1.15)
    F, square = tail.at(x)
    torch.testing.assert_close(F, ((1 + u**2) ** (-0.15)).mean(1))
    torch.testing.assert_close(square, (weight @ tail.dataset.inputs / u.shape[1]).square().sum(1))


def test_the_problem_knows_how_much_there_is_to_gain() -> None:
    """F(x_0) − F* of a quadratic is ½ Σ h̄_i (x_i − x*_i)² with the mean curvatures h̄ from μ to L."""
    problem = quadratic_problem(clients=4, samples=3, dimension=2, mu=0.5, sigma=1.0)
    constants = problem.dataset.constants
    assert constants is not None
    distance = flat_parameters(problem.model) - constants.optimum
    expected = 0.5 * (torch.tensor([0.5, 1.0]) * distance**2).sum().item()
    asked = problem.problem(A=2, K=1, b_small=1, epsilon=1e-3)
    assert asked.delta == pytest.approx(expected)
    assert (asked.M, asked.n, asked.mu) == (4, 3, None)
    assert problem.problem(pl=True, A=2, K=1, b_small=1, epsilon=1e-3).mu == 0.5
