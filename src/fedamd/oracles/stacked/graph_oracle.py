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
from fedamd.oracles.stacked.compilation import Compilation, compile_graph_kernels, compile_sample_kernels
from fedamd.oracles.stacked.graph import Network
from fedamd.oracles.stacked.kernels import has_kernels
from fedamd.oracles.stacked.oracle import cross_entropy, gather
from fedamd.oracles.stacked.packing import LivePacking


class GraphOracle(AutogradOracle):
    """Stacks through `graph`; one model alone, and the evaluation, as automatic differentiation does them."""

    name = "graph"
    description = "stacks of residual networks on a GPU, each with its own weights"
    made_for = "cuda"
    stacks_on = ("cuda",)
    samples_at_once = 1 << 12

    def __init__(self, model: nn.Module, dataset: Dataset) -> None:
        self._compiling: list[Compilation] = []  # first of all: beside the rest
        if has_kernels(dataset.inputs):
            self._compiling.append(compile_graph_kernels(dataset.inputs, dataset.classes))
        try:
            self._network = _network(model, dataset)
        except (NotPlain, FedamdError) as reason:
            raise FedamdError(
                f"the graph oracle cannot run this model: {reason}; the autograd oracle takes any model"
            ) from reason
        super().__init__(model, dataset)
        shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
        self.packing = LivePacking(shapes, self._network.crops)

    @classmethod
    def unsupported(cls, model: nn.Module, dataset: Dataset) -> str | None:
        """Why it cannot take this model on these data; None if it can."""
        try:
            _network(model, dataset)
        except (NotPlain, FedamdError) as reason:
            return str(reason)
        return None

    def cannot_stack(self) -> str | None:
        """It is made for stacks."""
        return None

    def expect(self, length: int) -> None:
        """Two of the kernels are compiled for a length."""
        if has_kernels(self._data.inputs):
            self._compiling.append(compile_sample_kernels(self._data.inputs, self._network.shape[0], length))

    def gradient(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """∇f(x; B) and f(x; B)."""
        if x.dim() == 1:
            return super().gradient(x, batch)
        packed = self._packed(x)
        gradient = torch.empty_like(packed)
        loss = self.gradient_into(gradient, packed, batch)
        out = torch.zeros_like(x, memory_format=torch.contiguous_format)
        self.packing.unpack(gradient, out)
        return out, loss

    @torch.no_grad()
    def gradient_into(self, out: Tensor, x: Tensor, batch: Batch) -> Tensor:
        """Put ∇f(x; B) of a packed stack where it is wanted, packed; f(x; B)."""
        self._wait_for_kernels()
        parameters = self.packing.parameters(x)
        logits, kept = self._network.forward(parameters, gather(self._data.inputs, batch.samples))
        loss, upstream = cross_entropy(logits, self._data.targets, batch)
        self._network.backward(parameters, kept, upstream, self.packing.parameters(out))
        return loss

    @torch.no_grad()
    def loss(self, x: Tensor, batch: Batch) -> Tensor:
        """f(x; B) alone: a forward pass."""
        if x.dim() == 1:
            return super().loss(x, batch)
        self._wait_for_kernels()
        logits, _ = self._network.forward(
            self.packing.parameters(self._packed(x)), gather(self._data.inputs, batch.samples)
        )
        return cross_entropy(logits, self._data.targets, batch)[0]

    def _wait_for_kernels(self) -> None:
        """So that none is compiled twice, or while a CUDA graph is recorded."""
        while self._compiling:
            self._compiling.pop().wait()

    def _packed(self, x: Tensor) -> Tensor:
        packed = x.new_zeros(len(x), self.packing.size)
        self.packing.pack(x, packed)
        return packed


def _network(model: nn.Module, dataset: Dataset) -> Network:
    check_plain(model)
    check_unaugmented(dataset)
    network = Network(model, tuple(dataset.inputs.shape[1:]))
    check_labels(dataset, network.shape)
    return network
