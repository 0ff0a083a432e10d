"""Estimators on problems whose constants are known: inside their intervals, within budget, exact where they can be."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedamd.data.base import Dataset, Partition
from fedamd.data.synthetic import logistic, quadratic
from fedamd.errors import FedamdError
from fedamd.models.convex import Logistic, Quadratic
from fedamd.theory import Estimate, Estimates, Problem, estimate_constants
from fedamd.theory.estimate import Probe, _unbiased

SPECIAL = {"L", "sigma", "L_sigma", "heterogeneity", "delta", "mu"}


def estimates(model: nn.Module, data: Dataset, x: Tensor, **options: Any) -> Estimates:
    assert data.clients is not None
    return estimate_constants(model.double(), data, data.clients, x, **({"budget": 10**6} | options))


def within(estimate: Estimate | None, truth: float) -> bool:
    assert estimate is not None
    return estimate.low - 1e-9 <= truth <= estimate.high + 1e-9


def test_quadratic_with_all_samples_is_exact() -> None:
    """Constants of the data set; heterogeneity and F(x) computed here from the clients' means."""
    data = quadratic(clients=12, samples=10, dimension=6, mu=0.2, L=3.0, sigma=1.5, seed=3)
    x = torch.linspace(-1, 1, 6, dtype=torch.float64)
    found = estimates(Quadratic(6), data, x, convex=True, minimum=data.constants.minimum)
    centres, curvatures = data.inputs.view(12, 10, 2, 6).unbind(2)
    gradients = (curvatures * (x - centres)).mean(1)
    spread = (gradients - gradients.mean(0)).square().sum(1).mean().item()
    value = (0.5 * curvatures * (x - centres) ** 2).sum(-1).mean().item()
    assert found.L.value == pytest.approx(curvatures.max().item())
    assert found.mu.value == pytest.approx(0.2)
    assert found.sigma.value == pytest.approx(1.5)
    assert found.L_sigma.value == pytest.approx(0.0, abs=1e-7)
    assert found.heterogeneity.value == pytest.approx(spread)
    assert found.delta.value == pytest.approx(value - data.constants.minimum)
    for estimate in (found.mu, found.sigma, found.heterogeneity, found.delta):
        assert estimate.high - estimate.low < 1e-6


def exact_logistic(data: Dataset, clients: int, x: Tensor, reg: float) -> dict[str, float]:
    """All constants at x from explicit Hessians: a sample's is s(1 − s)·zzᵀ + λI with s its predicted probability."""
    z = data.inputs.view(clients, -1, len(x))
    signs = (2.0 * data.targets - 1).view(clients, -1)
    margin = signs * (z @ x)
    weight = torch.sigmoid(margin) * torch.sigmoid(-margin)
    eye = torch.eye(len(x), dtype=torch.float64)
    hessians = torch.einsum("ms,msi,msj->msij", weight, z, z) + reg * eye
    mean = hessians.mean(1, keepdim=True)
    squares = ((hessians - mean) @ (hessians - mean)).mean(1)
    gradients = -(signs * torch.sigmoid(-margin)).unsqueeze(-1) * z + reg * x
    noise = (gradients - gradients.mean(1, keepdim=True)).square().sum(-1).mean(1)
    losses = nn.functional.softplus(-margin).mean().item() + 0.5 * reg * float(x @ x)
    local = gradients.mean(1)
    return {
        "L": torch.linalg.eigvalsh(mean).max().item(),
        "mu": torch.linalg.eigvalsh(hessians.mean((0, 1))).min().item(),
        "sigma": math.sqrt(noise.max()),
        "L_sigma": math.sqrt(torch.linalg.eigvalsh(squares).max()),
        "heterogeneity": (local - local.mean(0)).square().sum(1).mean().item(),
        "delta": losses,
    }


def test_logistic_with_all_samples_is_exact_and_below_the_global_bounds() -> None:
    data = logistic(clients=8, samples=30, dimension=5, regularisation=0.05, seed=1)
    x = data.constants.optimum + 0.3
    found = estimates(Logistic(5, 0.05), data, x, convex=True)
    for name, truth in exact_logistic(data, 8, x, 0.05).items():
        assert getattr(found, name).value == pytest.approx(truth, rel=1e-6), name
        assert within(getattr(found, name), truth)
    assert found.L.value <= data.constants.L
    assert found.L_sigma.value <= data.constants.L_sigma
    assert found.mu.value >= data.constants.mu


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_tight_budget_still_covers_the_truth(seed: int) -> None:
    """About a tenth of the samples a client, so that every estimate is from a draw; 99 % intervals, fixed seeds."""
    data = logistic(clients=6, samples=400, dimension=4, regularisation=0.05, seed=7)
    x = data.constants.optimum + 0.2
    budget = 40_000
    found = estimates(Logistic(4, 0.05), data, x, convex=True, budget=budget, seed=seed, confidence=0.99)
    truth = exact_logistic(data, 6, x, 0.05)
    for name in SPECIAL:
        estimate = getattr(found, name)
        assert within(estimate, truth[name]), (name, estimate, truth[name])
    assert sum(getattr(found, name).samples_used for name in SPECIAL) <= budget
    assert found.L.high - found.L.low > 1e-3
    assert found.sigma.high - found.sigma.low > 1e-3


def test_more_budget_narrows_the_intervals() -> None:
    data = logistic(clients=6, samples=400, dimension=4, seed=7)
    widths = []
    for budget in (30_000, 300_000):
        found = estimates(Logistic(4, 0.01), data, data.constants.optimum, budget=budget)
        widths.append([getattr(found, name).high - getattr(found, name).low for name in ("sigma", "L", "delta")])
    assert all(wide > narrow for wide, narrow in zip(*widths, strict=True))


def test_few_clients_stand_for_many() -> None:
    """200 clients and a budget for some: the means still cover the truth over all clients."""
    data = logistic(clients=200, samples=30, dimension=3, seed=2)
    x = torch.zeros(3, dtype=torch.float64)
    found = estimates(Logistic(3, 0.01), data, x, budget=20_000, confidence=0.99)
    truth = exact_logistic(data, 200, x, 0.01)
    assert within(found.delta, truth["delta"])
    assert within(found.heterogeneity, truth["heterogeneity"])
    assert found.heterogeneity.low < found.heterogeneity.value < found.heterogeneity.high


def test_heterogeneity_from_some_clients_is_unbiased() -> None:
    """The budget pays for 3 of 4 clients: over the 4 possible choices the estimates average to the truth exactly."""
    data = quadratic(clients=4, samples=100, dimension=2, seed=4)
    x = torch.ones(2, dtype=torch.float64)
    centres, curvatures = data.inputs.view(4, 100, 2, 2).unbind(2)
    gradients = (curvatures * (x - centres)).mean(1)
    truth = (gradients - gradients.mean(0)).square().sum(1).mean().item()
    values = {
        round(estimates(Quadratic(2), data, x, budget=2625, seed=seed).heterogeneity.value, 9) for seed in range(30)
    }
    assert len(values) == 4
    assert sum(values) / 4 == pytest.approx(truth, abs=1e-7)


@pytest.mark.parametrize(("drawn", "owned", "factor"), [(10, 10, 1.0), (5, 10, 1.125), (2, 3, 4 / 3)])
def test_variance_about_the_mean_of_a_draw(drawn: int, owned: int, factor: float) -> None:
    """s²·(n − 1)/n estimates the client's variance: m/(m − 1)·(n − 1)/n times the mean square about the draw's mean."""
    assert _unbiased(Probe(torch.arange(drawn), owned)) == pytest.approx(factor)


def test_a_network_with_convolutions_and_pooling() -> None:
    """The largest curvature of a small network against its explicit Hessian."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)).double()
    inputs, targets = torch.randn(12, 1, 6, 6, dtype=torch.float64), torch.arange(12) % 3
    data = Dataset("noise", inputs, targets, inputs, targets, 3)
    partition = Partition.of([range(6), range(6, 12)])
    x = nn.utils.parameters_to_vector(model.parameters()).detach()
    found = estimate_constants(model, data, partition, x, budget=10**5)

    def client_loss(flat: Tensor, client: int) -> Tensor:
        samples, parameters, start = partition.samples(client), {}, 0
        for name, parameter in model.named_parameters():
            parameters[name] = flat[start : start + parameter.numel()].view_as(parameter)
            start += parameter.numel()
        outputs = torch.func.functional_call(model, parameters, (inputs[samples],))
        return nn.functional.cross_entropy(outputs, targets[samples])

    hessians = [torch.func.jacrev(torch.func.grad(client_loss))(x, client) for client in range(2)]
    assert found.L.value == pytest.approx(max(torch.linalg.eigvalsh(H).abs().max().item() for H in hessians), rel=1e-6)


def test_progress_ends_and_never_goes_back() -> None:
    seen: dict[str, list[float]] = {}
    data = quadratic(clients=4, samples=5, dimension=3)
    x = torch.zeros(3, dtype=torch.float64)
    estimates(Quadratic(3), data, x, convex=True, progress=lambda name, part: seen.setdefault(name, []).append(part))
    assert seen.keys() == SPECIAL
    for parts in seen.values():
        assert parts == sorted(parts)
        assert parts[-1] == 1.0


def test_the_same_seed_gives_the_same_estimates() -> None:
    data = logistic(clients=6, samples=400, dimension=4, seed=7)
    first, again, other = (
        estimates(Logistic(4, 0.01), data, data.constants.optimum, budget=30_000, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_estimates_fill_a_problem() -> None:
    data = quadratic(clients=4, samples=5, dimension=3)
    found = estimates(Quadratic(3), data, torch.ones(3, dtype=torch.float64), convex=True)
    rough = Problem(M=4, A=2, K=5, b_small=1, L=9.0, L_sigma=9.0, sigma=9.0, delta=9.0, epsilon=0.01)
    filled = found.applied_to(rough)
    assert (filled.L, filled.sigma, filled.mu) == (found.L.value, found.sigma.value, found.mu.value)
    assert (filled.M, filled.epsilon) == (4, 0.01)


class Saddle(nn.Module):
    """ℓ = x_1² − x_2²/2 for every sample: curvatures 2 and −1."""

    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.zeros(2))

    def forward(self, inputs: Tensor) -> Tensor:
        return (self.x[0] ** 2 - self.x[1] ** 2 / 2).expand(len(inputs))

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:  # noqa: ARG002  no targets
        return outputs


class Ridge(Saddle):
    """ℓ = 100 − 3·x_1² + x_2²/2 for every sample: the largest curvature in size is −6."""

    def forward(self, inputs: Tensor) -> Tensor:
        return (-3 * self.x[0] ** 2 + self.x[1] ** 2 / 2 + 100).expand(len(inputs))


def test_negative_curvature_counts_for_L_and_refuses_mu() -> None:
    data = quadratic(clients=3, samples=4, dimension=2)
    x = torch.tensor([2.0, 1.0], dtype=torch.float64)
    assert estimates(Ridge(), data, x).L.value == pytest.approx(6.0)
    with pytest.raises(FedamdError, match="not convex at x"):
        estimates(Saddle(), data, x, convex=True)


def test_refusals() -> None:
    data = quadratic(clients=3, samples=4, dimension=2)
    x = torch.ones(2, dtype=torch.float64)
    with pytest.raises(FedamdError, match="too small to estimate L"):
        estimates(Quadratic(2), data, x, budget=50)
    with pytest.raises(FedamdError, match=r"it would be \(2,\)"):
        estimates(Quadratic(2), data, torch.ones(3, dtype=torch.float64))
    with pytest.raises(FedamdError, match="not above the lower bound"):
        estimates(Quadratic(2), data, x, minimum=1e6)
    with pytest.raises(FedamdError, match="confidence is 1"):
        estimates(Quadratic(2), data, x, confidence=1.0)


def test_heterogeneity_needs_whole_clients() -> None:
    data = quadratic(clients=4, samples=2000, dimension=2)
    with pytest.raises(FedamdError, match="3 whole clients"):
        estimates(Quadratic(2), data, torch.ones(2, dtype=torch.float64), budget=20_000)
