"""Gradients of stacks of networks that are graphs (residual networks): the GPU's oracle where `stacked` cannot serve.

A convolution is one batched matrix product for all models of the stack, which cuDNN's grouped convolutions are slower
than. The library chooses how it sums by the size of the stack, so a row's last bits may depend on the others.
"""

import torch
from torch import Tensor, nn

from fedamd.data.base import Dataset
from fedamd.errors import FedamdError
from fedamd.oracles.architecture import NotPlain, check_labels, check_plain, check_unaugmented
from fedamd.oracles.autograd import AutogradOracle
from fedamd.oracles.base import Batch
from fedamd.oracles.stacked.graph import Network
from fedamd.oracles.stacked.oracle import cross_entropy, gather


class GraphOracle(AutogradOracle):
    """Stacks through `graph`; one model alone, and the evaluation, as automatic differentiation does them."""

    name = "graph"
    description = "stacks of residual networks on a GPU, each with its own weights"
    made_for = "cuda"
    stacks_on = ("cuda",)
    samples_at_once = 1 << 12

    def __init__(self, model: nn.Module, dataset: Dataset) -> None:
        super().__init__(model, dataset)
        if reason := self.unsupported(model, dataset):
            raise FedamdError(f"the graph oracle cannot run this model: {reason}; the autograd oracle takes any model")
        self._network = Network(model, tuple(dataset.inputs.shape[1:]))
        self._shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
        self._sizes = [shape.numel() for shape in self._shapes.values()]

    @classmethod
    def unsupported(cls, model: nn.Module, dataset: Dataset) -> str | None:
        """Why it cannot take this model on these data; None if it can."""
        try:
            check_plain(model)
            check_unaugmented(dataset)
            check_labels(dataset, Network(model, tuple(dataset.inputs.shape[1:])).shape)
        except (NotPlain, FedamdError) as reason:
            return str(reason)
        return None

    def cannot_stack(self) -> str | None:
        """It is made for stacks."""
        return None

    def gradient(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """∇f(x; B) and f(x; B)."""
        if x.dim() == 1:
            return super().gradient(x, batch)
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        return out, self.gradient_into(out, x, batch)

    def gradient_into(self, out: Tensor, x: Tensor, batch: Batch) -> Tensor:
        """Put ∇f(x; B) of a stack where it is wanted; f(x; B)."""
        with torch.enable_grad():
            parameters = {name: values.detach().requires_grad_() for name, values in self._parameters(x).items()}
            logits = self._network(parameters, gather(self._data.inputs, batch.samples))
        loss, upstream = cross_entropy(logits.detach(), self._data.targets, batch)
        gradients = torch.autograd.grad(logits, list(parameters.values()), upstream)
        torch.cat([gradient.flatten(1) for gradient in gradients], 1, out=out)
        return loss

    @torch.no_grad()
    def loss(self, x: Tensor, batch: Batch) -> Tensor:
        """f(x; B) alone: a forward pass."""
        if x.dim() == 1:
            return super().loss(x, batch)
        logits = self._network(self._parameters(x), gather(self._data.inputs, batch.samples))
        return cross_entropy(logits, self._data.targets, batch)[0]

    def _parameters(self, x: Tensor) -> dict[str, Tensor]:
        """Each parameter's numbers for all models, (N, *shape)."""
        pieces = x.split_with_sizes(self._sizes, 1)
        return {
            name: piece.view(len(x), *shape) for (name, shape), piece in zip(self._shapes.items(), pieces, strict=True)
        }
