"""Derivatives of a model's per-sample loss at one point x: gradients by vmap, Hessian-vector products by torch.func.

Samples are counted as they are used: a gradient counts its samples once, a Hessian-vector product twice, a loss once.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.func import grad, vjp, vmap

from fedamd.data.base import Dataset
from fedamd.errors import FedamdError
from fedamd.oracles.objective import Objective

CHUNK = 128  # samples differentiated at a time: bounds memory at CHUNK·d values


class Landscape:
    """ℓ(x; z_j) for the samples z_j of a data set, and its first two derivatives in x."""

    def __init__(self, model: nn.Module, dataset: Dataset, x: Tensor) -> None:
        """x is flat, in the order of `model.parameters()`; the loss is the one training uses (`Objective`)."""
        self.x = x.detach()
        self.samples_used = 0
        self._objective, self._data = Objective(model, dataset.classes), dataset
        d = self._objective.dimension
        if x.shape != (d,):
            raise FedamdError(f"x has shape {tuple(x.shape)}: the model has {d} parameters, so it would be ({d},)")

    def losses(self, samples: Tensor) -> Tensor:
        """ℓ(x; z_j) for each sample."""
        self.samples_used += len(samples)
        with torch.no_grad():
            return torch.cat([self._losses(self.x, chunk) for chunk in _chunks(samples)])

    def gradient(self, samples: Tensor) -> Tensor:
        """The mean gradient over the samples."""
        self.samples_used += len(samples)
        total = torch.zeros_like(self.x)
        for chunk in _chunks(samples):
            total += grad(lambda x, chunk=chunk: self._losses(x, chunk).sum())(self.x)
        return total / len(samples)

    def gradients(self, samples: Tensor) -> Iterator[Tensor]:
        """∇ℓ(x; z_j), one row per sample, a chunk of samples at a time."""
        self.samples_used += len(samples)
        for chunk in _chunks(samples):
            yield vmap(grad(self._one_loss), in_dims=(None, 0, 0))(self.x, *self._batch(chunk))

    def curvature(self, samples: Tensor, weights: Tensor, v: Tensor) -> Tensor:
        """Σ_j w_j·∇²ℓ(x; z_j)·v."""
        self.samples_used += 2 * len(samples)
        total = torch.zeros_like(self.x)
        for chunk, weight in zip(_chunks(samples), _chunks(weights), strict=True):

            def weighted(x: Tensor, chunk: Tensor = chunk, weight: Tensor = weight) -> Tensor:
                return self._losses(x, chunk) @ weight

            total += _hessian_vector(weighted, self.x, v)
        return total

    def curvatures(self, samples: Tensor, v: Tensor) -> Tensor:
        """∇²ℓ(x; z_j)·v, one row per sample; v is one vector, or one per sample."""
        self.samples_used += 2 * len(samples)
        one_each = v.expand(len(samples), -1)

        def one(inputs: Tensor, target: Tensor, direction: Tensor) -> Tensor:
            return _hessian_vector(lambda x: self._one_loss(x, inputs, target), self.x, direction)

        chunks = zip(_chunks(samples), _chunks(one_each), strict=True)
        return torch.cat([vmap(one)(*self._batch(chunk), rows) for chunk, rows in chunks])

    def _batch(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        return self._data.inputs[samples], self._data.targets[samples]

    def _losses(self, x: Tensor, samples: Tensor) -> Tensor:
        return self._objective.at(x, *self._batch(samples))[0]

    def _one_loss(self, x: Tensor, inputs: Tensor, target: Tensor) -> Tensor:
        return self._objective.at(x, inputs.unsqueeze(0), target.unsqueeze(0))[0].squeeze(0)


def _chunks(rows: Tensor) -> list[Tensor]:
    return [rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK)]


def _hessian_vector(function: Callable[[Tensor], Tensor], x: Tensor, v: Tensor) -> Tensor:
    """∇²f(x)·v, as vᵀ∇²f(x): every operation has a reverse derivative, not every one a forward derivative."""
    pull_back = vjp(grad(function), x)[1]
    product: Tensor = pull_back(v)[0]
    return product
