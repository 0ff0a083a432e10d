"""Problems to hold theory against: everything the theorems ask for is known exactly or bounded by hand.

quadratic   the synthetic data set of that name: strongly convex, hence PL
tail        ℓ(x; z) = (1 + (zᵀx)²)^{−s/2}: smooth, non-convex, and as slow for gradient descent as 1/ε nearly allows

F of the tail problem has its infimum 0 at infinity. Far out it is homogeneous of degree −s: there gradient flow moves
as |x| ~ t^{1/(s+2)}, so ‖∇F‖² ~ t^{−2(s+1)/(s+2)}, and ‖∇F‖² ≤ ε takes ε^{−(s+2)/(2(s+1))} rounds: nearly 1/ε for
small s.

With φ(u) = (1 + u²)^{−s/2}: φ'' = −s·(1 − (s+1)u²)·(1 + u²)^{−s/2−2}, hence |φ''| ≤ s for s ≤ 1, and |φ'| ≤ s/2.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from fedamd.data.base import Dataset, Partition
from fedamd.data.synthetic import quadratic
from fedamd.models import Quadratic
from fedamd.oracles.objective import Objective, flat_parameters
from fedamd.theory.problem import Problem

ROWS_AT_ONCE = 4096  # models in one call: bounds the memory of `SyntheticProblem.at`


@dataclass(frozen=True)
class SyntheticProblem:
    """A problem with all its constants."""

    dataset: Dataset
    model: nn.Module
    clients: int
    L: float
    L_sigma: float
    sigma: float
    minimum: float  # F*
    mu: float | None

    def problem(self, *, pl: bool = False, **sizes: float | None) -> Problem:
        """What the theorems are asked about; `pl` says that they may use μ."""
        delta = float(self.at(flat_parameters(self.model).unsqueeze(0))[0]) - self.minimum
        known = {"L": self.L, "L_sigma": self.L_sigma, "sigma": self.sigma, "delta": delta, "n": self.samples}
        return Problem(M=self.clients, mu=self.mu if pl else None, **(known | sizes))  # type: ignore[arg-type]

    @property
    def samples(self) -> int:
        """n, the same for all clients."""
        return len(self.dataset.inputs) // self.clients

    def at(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """F and ‖∇F‖² at every row of x; all clients own as much, so F is the mean over all samples."""
        objective, data = Objective(self.model, self.dataset.classes), self.dataset

        def value(one: Tensor) -> Tensor:
            return objective.at(one, data.inputs, data.targets)[0].mean()

        both = torch.func.vmap(torch.func.grad_and_value(value))
        parts = [both(rows) for rows in torch.split(x, ROWS_AT_ONCE)]
        return torch.cat([F for _, F in parts]), torch.cat([gradient.square().sum(-1) for gradient, _ in parts])


class Tail(nn.Module):
    """ℓ(x; z) = (1 + (zᵀx)²)^{−s/2}."""

    def __init__(self, dimension: int, s: float) -> None:
        super().__init__()
        self.s = s
        self.x = nn.Parameter(torch.full((dimension,), 0.4, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs @ self.x

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:  # noqa: ARG002  there is nothing to predict
        return (1 + outputs.square()) ** (-self.s / 2)


def tail_problem(clients: int, samples: int, dimension: int, s: float = 0.1, seed: int = 0) -> SyntheticProblem:
    """Clients whose z lie around vectors of their own.

    L = s·max_m λ_max(E zzᵀ), L_σ = s·max_m sqrt(λ_max(E ‖z‖²zzᵀ)) and σ = (s/2)·max_m sqrt(E ‖z‖²) hold everywhere.
    """
    rng = np.random.default_rng(seed)
    own = np.ones(dimension) + 0.5 * rng.standard_normal((clients, 1, dimension))
    points = (own + 0.3 * rng.standard_normal((clients, samples, dimension))) / np.sqrt(dimension)
    squares = (points**2).sum(2)
    moments = np.einsum("msi,msj->mij", points, points) / samples
    heavier = np.einsum("ms,msi,msj->mij", squares, points, points) / samples
    inputs = torch.from_numpy(points.reshape(-1, dimension))
    targets = torch.zeros(len(inputs), dtype=torch.float64)
    owners = Partition(torch.arange(len(inputs)), torch.arange(0, len(inputs) + 1, samples))
    return SyntheticProblem(
        Dataset("tail", inputs, targets, inputs, targets, 0, owners),
        Tail(dimension, s),
        clients,
        L=s * float(np.linalg.eigvalsh(moments).max()),
        L_sigma=s * float(np.sqrt(np.linalg.eigvalsh(heavier).max())),
        sigma=s / 2 * float(np.sqrt(squares.mean(1).max())),
        minimum=0.0,
        mu=None,
    )


def quadratic_problem(
    clients: int, samples: int, dimension: int, mu: float, sigma: float, seed: int = 0
) -> SyntheticProblem:
    """The quadratic data set with L = 1, started three units from the origin in every direction."""
    dataset = quadratic(clients, samples, dimension, mu=mu, L=1.0, sigma=sigma, seed=seed)
    known = dataset.constants
    assert known is not None  # a synthetic problem knows itself
    model = Quadratic(dimension).double()
    nn.init.constant_(model.x, 3.0)
    return SyntheticProblem(dataset, model, clients, known.L, known.L_sigma, known.sigma, known.minimum, known.mu)
