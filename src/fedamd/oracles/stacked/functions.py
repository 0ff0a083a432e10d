"""Layers of N models at once, forward and backward, for networks that are graphs.

Activations are (N, C, H, W, B) or (N, features, B): the batch is the last axis, so that a convolution is one batched
matrix product with the unfolded input. Every model has its own parameters, (N, …), and the gradients with respect to
them are written where they are wanted. Where Triton's kernels can run, they do what would take the library many steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from fedamd.oracles.stacked.convolution import Geometry
from fedamd.oracles.stacked.kernels import has_kernels

Parameters = Mapping[str, Tensor]

MOST_TAPS = 256  # of a pooling window: where its maximum was is kept in a byte
MOST_KEPT = 1 << 28  # numbers of a layer's columns (1 GiB in float32); beyond, the backward pass unfolds again


@dataclass(frozen=True)
class Back:
    """What the backward pass brings to a layer."""

    upstream: Tensor  # the gradient with respect to its outputs
    kept: Any  # by its forward pass
    parameters: Parameters
    gradients: Parameters  # where those with respect to the parameters belong
    so_far: Tensor | None  # the gradient with respect to its first input, in so far as other layers contribute to it
    wanted: bool  # whether anybody needs those with respect to its inputs

    def total(self, own: Tensor) -> Tensor:
        """With what others contribute."""
        return own if self.so_far is None else own + self.so_far


class GraphLayer(Protocol):
    """One step of a network."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of its parameters."""
        return ()

    def forward(self, parameters: Parameters, inputs: Sequence[Tensor]) -> tuple[Tensor, Any]:
        """The outputs, and what `backward` needs."""
        ...

    def backward(self, back: Back) -> Sequence[Tensor]:
        """Fill in the parameters' gradients; those with respect to the inputs, the first one in `total`."""
        ...


@dataclass(frozen=True)
class Convolution(GraphLayer):
    """y = W ∗ a + b for weights (N, C', C, rows, columns), those of live taps alone, and biases (N, C')."""

    weight: str
    bias: str | None
    geometry: Geometry

    @property
    def names(self) -> tuple[str, ...]:
        return _present(self.weight, self.bias)

    def forward(self, parameters: Parameters, inputs: Sequence[Tensor]) -> tuple[Tensor, Any]:
        columns = self.geometry.unfold(inputs[0])
        outputs = _biased(torch.bmm(parameters[self.weight].flatten(2), columns), parameters, self.bias)
        kept = (inputs[0], columns if columns.numel() <= MOST_KEPT else None)
        return outputs.view(len(outputs), *self.geometry.outputs, -1), kept

    def backward(self, back: Back) -> Sequence[Tensor]:
        (images, columns), upstream = back.kept, back.upstream.flatten(2)
        columns = self.geometry.unfold(images) if columns is None else columns
        weight, of_weight = back.parameters[self.weight].flatten(2), back.gradients[self.weight]
        torch.bmm(upstream, columns.transpose(1, 2), out=of_weight.view(weight.shape))
        _sum_biases(upstream, back.gradients, self.bias)
        if not back.wanted:
            return ()
        columns = torch.bmm(weight.transpose(1, 2), upstream)
        return [self.geometry.fold(columns, back.upstream.shape[-1], back.so_far)]


@dataclass(frozen=True)
class Affine(GraphLayer):
    """y = W·a + b for weights (N, outputs, inputs) and biases (N, outputs)."""

    weight: str
    bias: str | None

    @property
    def names(self) -> tuple[str, ...]:
        return _present(self.weight, self.bias)

    def forward(self, parameters: Parameters, inputs: Sequence[Tensor]) -> tuple[Tensor, Any]:
        return _biased(torch.bmm(parameters[self.weight], inputs[0]), parameters, self.bias), inputs[0]

    def backward(self, back: Back) -> Sequence[Tensor]:
        torch.bmm(back.upstream, back.kept.transpose(1, 2), out=back.gradients[self.weight])
        _sum_biases(back.upstream, back.gradients, self.bias)
        if not back.wanted:
            return ()
        return [back.total(torch.bmm(back.parameters[self.weight].transpose(1, 2), back.upstream))]


def _present(*names: str | None) -> tuple[str, ...]:
    return tuple(name for name in names if name is not None)


def _biased(outputs: Tensor, parameters: Parameters, bias: str | None) -> Tensor:
    return outputs if bias is None else outputs.add_(parameters[bias].unsqueeze(-1))


def _sum_biases(upstream: Tensor, gradients: Parameters, bias: str | None) -> None:
    if bias is not None:
        torch.sum(upstream, 2, out=gradients[bias])


@dataclass(frozen=True)
class GroupNorm(GraphLayer):
    """(a − mean)/√(variance + ε) over each of the groups of channels, times weights (N, C), plus biases (N, C).

    Two steps that often follow are taken along: the sum with a second input, and ReLU.
    """

    weight: str
    bias: str
    groups: int
    epsilon: float
    added: bool = False
    rectified: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return self.weight, self.bias

    def forward(self, parameters: Parameters, inputs: Sequence[Tensor]) -> tuple[Tensor, Any]:
        images, weight, bias = inputs[0], parameters[self.weight], parameters[self.bias]
        other = inputs[1] if self.added else None
        if has_kernels(images):
            from fedamd.oracles.stacked import triton_group_norm

            return triton_group_norm.forward(images, weight, bias, self.groups, self.epsilon, other, self.rectified)
        grouped = self._grouped(images)
        variance, mean = torch.var_mean(grouped, 2, correction=0, keepdim=True)
        scale = (variance + self.epsilon).rsqrt()
        normal = ((grouped - mean) * scale).view_as(images)
        outputs = torch.addcmul(_per_channel(bias, images), normal, _per_channel(weight, images))
        outputs = outputs if other is None else outputs + other
        outputs = outputs.relu() if self.rectified else outputs
        return outputs, (normal, scale, outputs)

    def backward(self, back: Back) -> Sequence[Tensor]:
        weight, of_weight = back.parameters[self.weight], back.gradients[self.weight]
        of_bias = back.gradients[self.bias]
        if has_kernels(back.upstream):
            from fedamd.oracles.stacked import triton_group_norm as kernels

            upstream = back.upstream.contiguous()
            kernels.parameter_gradient(back.kept, upstream, of_weight, of_bias, self.groups)
            own, *others = kernels.input_gradient(back.kept, weight, upstream, self.groups, self.added)
            return [back.total(own), *others]
        normal, scale, outputs = back.kept
        upstream = back.upstream.masked_fill(outputs <= 0, 0.0) if self.rectified else back.upstream
        along = tuple(range(2, upstream.dim()))
        torch.sum(upstream * normal, along, out=of_weight)
        torch.sum(upstream, along, out=of_bias)
        slope, grouped = self._grouped(upstream * _per_channel(weight, upstream)), self._grouped(normal)
        turned = (slope * grouped).mean(2, keepdim=True)
        own = (scale * (slope - slope.mean(2, keepdim=True) - grouped * turned)).view_as(upstream)
        return [back.total(own), upstream] if self.added else [back.total(own)]

    def _grouped(self, images: Tensor) -> Tensor:
        """(N, groups, members, B)."""
        return images.reshape(len(images), self.groups, -1, images.shape[-1])


def _per_channel(values: Tensor, images: Tensor) -> Tensor:
    """(N, C) against images."""
    return values.reshape(*values.shape, *(1 for _ in images.shape[2:]))


class Plain(GraphLayer, Protocol):
    """A layer without parameters, that maps its inputs alone."""

    def forward(self, parameters: Parameters, inputs: Sequence[Tensor]) -> tuple[Tensor, Any]:  # noqa: ARG002
        return self.outputs(*inputs)

    def backward(self, back: Back) -> Sequence[Tensor]:
        own, *others = self.returned(back.kept, back.upstream)
        return [back.total(own), *others]

    def outputs(self, *inputs: Tensor) -> tuple[Tensor, Any]:
        """They, and what `returned` needs."""
        ...

    def returned(self, kept: Any, upstream: Tensor) -> Sequence[Tensor]:
        """The gradient with respect to each of the inputs."""
        ...


@dataclass(frozen=True)
class WindowMaxima(Plain):
    """The maximum of every window: the gradient goes to the first of equals."""

    geometry: Geometry

    def outputs(self, *inputs: Tensor) -> tuple[Tensor, Any]:
        (images,) = inputs
        if has_kernels(images):
            from fedamd.oracles.stacked import triton_columns

            return triton_columns.largest(images, self.geometry)
        best, *others = self.geometry.seen(self.geometry.padded(images, -torch.inf))
        code = torch.zeros_like(best, dtype=torch.uint8)
        for tap, values in enumerate(others, start=1):
            code = torch.where(values > best, tap, code)
            best = torch.maximum(best, values)  # lets NaN through, so that a diverged model shows
        return best, code

    def returned(self, kept: Any, upstream: Tensor) -> Sequence[Tensor]:
        if has_kernels(upstream):
            from fedamd.oracles.stacked import triton_columns

            return [triton_columns.largest_back(upstream, kept, self.geometry)]
        images = upstream.new_zeros(len(upstream), *self.geometry.inputs, upstream.shape[-1])
        gradient = self.geometry.padded(images, 0.0)
        for tap, part in enumerate(self.geometry.seen(gradient)):
            part += upstream * (kept == tap)
        return [self.geometry.inside(gradient)]


class MeanPool(Plain):
    """The mean over all positions."""

    def outputs(self, *inputs: Tensor) -> tuple[Tensor, Any]:
        (images,) = inputs
        return images.mean((2, 3), keepdim=True), images.shape

    def returned(self, kept: Any, upstream: Tensor) -> Sequence[Tensor]:
        return [(upstream / (kept[2] * kept[3])).expand(kept)]


class Flattening(Plain):
    """Everything but the batch as one axis."""

    def outputs(self, *inputs: Tensor) -> tuple[Tensor, Any]:
        return inputs[0].flatten(1, -2), inputs[0].shape

    def returned(self, kept: Any, upstream: Tensor) -> Sequence[Tensor]:
        return [upstream.reshape(kept)]


class Rectifier(Plain):
    """max(a, 0)."""

    def outputs(self, *inputs: Tensor) -> tuple[Tensor, Any]:
        outputs = inputs[0].relu()
        return outputs, outputs

    def returned(self, kept: Any, upstream: Tensor) -> Sequence[Tensor]:
        return [upstream.masked_fill(kept <= 0, 0.0)]


class Add(Plain):
    """a + a'."""

    def outputs(self, *inputs: Tensor) -> tuple[Tensor, Any]:
        return inputs[0] + inputs[1], None

    def returned(self, kept: Any, upstream: Tensor) -> Sequence[Tensor]:  # noqa: ARG002
        return [upstream, upstream]
