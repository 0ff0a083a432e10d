"""The reference oracle: automatic differentiation of any `nn.Module`, one model at a time or a stack through vmap."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fedamd.data.base import Dataset
from fedamd.oracles.base import Batch, Oracle
from fedamd.oracles.objective import Objective

_TEST_CHUNK = 2500  # samples in one forward pass of the evaluation
_REHEARSED = 3  # samples that a model is tried on before anything runs


class AutogradOracle(Oracle):
    """Gradients of `model` on `dataset` by torch.autograd."""

    name = "autograd"
    description = "automatic differentiation of any model"

    def __init__(self, model: nn.Module, dataset: Dataset) -> None:
        self._objective = Objective(model, dataset.classes)
        self._data = dataset
        self.keyed = self._objective.keyed or dataset.augment is not None
        if len(dataset.inputs):
            few = torch.arange(_REHEARSED, device=dataset.inputs.device) % len(dataset.inputs)
            self._objective.rehearse(dataset.inputs[few], dataset.targets[few])
        value_and_grad = torch.func.grad_and_value(self._objective.weighted_loss)
        self._stacked_gradient: Callable[..., tuple[Tensor, Tensor]] = torch.func.vmap(value_and_grad)
        self._stacked_loss: Callable[..., Tensor] = torch.func.vmap(self._objective.weighted_loss)

    def cannot_stack(self) -> str | None:
        """Found by trying: vmap does not take every model."""
        x = self._objective.start.expand(2, -1)
        samples = torch.zeros(2, 1, dtype=torch.int64, device=x.device)
        try:
            self.gradient(x, Batch(samples, torch.ones_like(samples, dtype=x.dtype), samples if self.keyed else None))
        except Exception as error:  # of vmap, or of a model that looks into what it is given
            return (str(error).strip() or type(error).__name__).splitlines()[0]
        return None

    @property
    def dimension(self) -> int:
        return self._objective.dimension

    def gradient(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        if x.dim() == 2:
            return self._stacked_gradient(x, *self._gather(batch))
        leaf = x.detach().requires_grad_()
        loss = self._objective.weighted_loss(leaf, *self._gather(batch))
        (gradient,) = torch.autograd.grad(loss, leaf)
        return gradient, loss.detach()

    def difference(self, x: Tensor, previous: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        gradient, loss = self.gradient(x, batch)
        return gradient - self.gradient(previous, batch)[0], loss

    @torch.no_grad()
    def loss(self, x: Tensor, batch: Batch) -> Tensor:
        samples = self._gather(batch)
        if x.dim() == 1:
            return self._objective.weighted_loss(x, *samples)
        if len(x) == 1:  # without differentiation, vmap over one row does not take augmented images through GroupNorm
            return self._objective.weighted_loss(x[0], *(values[0] for values in samples)).unsqueeze(0)
        return self._stacked_loss(x, *samples)

    @torch.no_grad()
    def evaluate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        stack = x if x.dim() == 2 else x.unsqueeze(0)
        data = self._data
        test = list(
            zip(torch.split(data.test_inputs, _TEST_CHUNK), torch.split(data.test_targets, _TEST_CHUNK), strict=True)
        )
        losses, accuracies = (torch.stack(column) for column in zip(*(self._test(x, test) for x in stack), strict=True))
        return (losses, accuracies) if x.dim() == 2 else (losses[0], accuracies[0])

    def _test(self, x: Tensor, test: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Mean loss over the samples, and the share of the targets that are predicted right."""
        loss = right = count = torch.zeros((), device=x.device)
        for inputs, targets in test:
            losses, outputs = self._objective.at(x, inputs, targets)
            found, asked = self._objective.right(outputs, targets)
            loss, right, count = loss + losses.sum(), right + found, count + asked
        return loss / len(self._data.test_targets), right / count

    def _gather(self, batch: Batch) -> tuple[Tensor, ...]:
        inputs = self._data.training_inputs(batch.samples, batch.keys)
        samples = (inputs, self._data.targets[batch.samples], batch.weights)
        return (*samples, batch.keys) if self._objective.keyed and batch.keys is not None else samples
