"""Models of the synthetic problems whose constants and optimum are known."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Quadratic(nn.Module):
    """ℓ(x; z, h) = ½ Σ_i h_i (x_i − z_i)²: a sample is a centre z and a curvature h, inputs (B, 2, d)."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.zeros(dimension))

    def forward(self, inputs: Tensor) -> Tensor:
        centre, curvature = inputs.unbind(-2)
        return curvature.sqrt() * (self.x - centre)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:  # noqa: ARG002  a quadratic has no targets
        return 0.5 * outputs.square().sum(-1)


class Logistic(nn.Module):
    """ℓ(x; z, y) = log(1 + exp(−y zᵀx)) + ½·reg·‖x‖² with y = ±1 given as the classes 0 and 1."""

    def __init__(self, dimension: int, regularisation: float) -> None:
        super().__init__()
        self.regularisation = regularisation
        self.x = nn.Parameter(torch.zeros(dimension))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.flatten(1) @ self.x

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        sign = 2.0 * targets.to(outputs.dtype) - 1.0
        return F.softplus(-sign * outputs) + 0.5 * self.regularisation * self.x.square().sum()
