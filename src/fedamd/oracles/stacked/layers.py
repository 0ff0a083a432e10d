"""Layers of N models of one architecture at once: forward and backward written out, without autograd.

Activations are (N, *shape, B): the batch is the last axis, so that a linear layer is one batched matrix product W·a and
a convolution can run along the batch. The first activations may have fewer rows than there are models: with M rows,
M a divisor of N, model n reads row n mod M. A layer's parameters are its (N, size) columns of the stack of flat
parameter vectors, rows any distance apart (or all the same row).
"""

from typing import Protocol

import torch
from torch import Tensor

from fedamd.oracles.stacked.products import product, weight_gradient

Saved = tuple[Tensor, ...]  # what a layer's forward pass keeps for its backward pass


class Layer(Protocol):
    """One step of the network. Shapes are those of one sample."""

    size: int  # parameters of one model
    shape: tuple[int, ...]  # of the output

    def scratch(self, values: Tensor) -> int:
        """Numbers a sample needs besides input and output while the layer runs on such values (device, precision)."""
        ...

    def forward(self, parameters: Tensor, inputs: Tensor) -> tuple[Tensor, Saved]:
        """Outputs (N, *shape, B), and what backward needs."""
        ...

    def backward(self, parameters: Tensor, saved: Saved, upstream: Tensor, gradient: Tensor) -> None:
        """Fill `gradient` (N, size) from the gradient with respect to the outputs."""
        ...

    def input_gradient(self, parameters: Tensor, saved: Saved, upstream: Tensor) -> Tensor:
        """The gradient with respect to the inputs, (N, *input shape, B)."""
        ...


def spread(inputs: Tensor, models: int) -> Tensor:
    """One row for each model: row n mod M. Copies only if 1 < M < N."""
    rows = inputs.shape[0]
    if rows == models:
        return inputs
    if rows == 1:
        return inputs.expand(models, *inputs.shape[1:])
    return inputs.repeat(models // rows, *(1 for _ in inputs.shape[1:]))


def split_weight(parameters: Tensor, outputs: int) -> tuple[Tensor, Tensor]:
    """Weights (N, outputs, rest) and biases (N, outputs, 1), as views."""
    return parameters[:, :-outputs].view(len(parameters), outputs, -1), parameters[:, -outputs:].unsqueeze(2)


class LinearLayer:
    """y = W·a + b.

    Between two such layers, ReLU is part of both: the one before `rectifies` its outputs, and the one after, whose
    inputs are `rectified`, passes the gradient back through it.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        self.inputs = inputs
        self.shape: tuple[int, ...] = (outputs,)
        self.size = (inputs + 1) * outputs
        self.rectifies = self.rectified = False

    def scratch(self, values: Tensor) -> int:  # noqa: ARG002
        return 0

    def forward(self, parameters: Tensor, inputs: Tensor) -> tuple[Tensor, Saved]:
        weight, bias = split_weight(parameters, *self.shape)
        inputs = spread(inputs, len(weight))
        return product(weight, inputs, bias, rectified=self.rectifies), (inputs,)

    def backward(self, parameters: Tensor, saved: Saved, upstream: Tensor, gradient: Tensor) -> None:  # noqa: ARG002
        weight, bias = split_weight(gradient, *self.shape)
        weight_gradient(upstream, saved[0], weight, bias)

    def input_gradient(self, parameters: Tensor, saved: Saved, upstream: Tensor) -> Tensor:
        weight, _ = split_weight(parameters, *self.shape)
        return product(weight.transpose(1, 2), upstream, gate=saved[0] if self.rectified else None)


class Parameterless:
    """What the layers without parameters share."""

    size = 0

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def scratch(self, values: Tensor) -> int:  # noqa: ARG002
        return 0

    def backward(self, parameters: Tensor, saved: Saved, upstream: Tensor, gradient: Tensor) -> None:
        """Nothing to fill."""


class Flatten(Parameterless):
    """(N, *shape, B) as (N, features, B)."""

    def forward(self, parameters: Tensor, inputs: Tensor) -> tuple[Tensor, Saved]:  # noqa: ARG002
        return inputs.flatten(1, -2), (inputs,)

    def input_gradient(self, parameters: Tensor, saved: Saved, upstream: Tensor) -> Tensor:  # noqa: ARG002
        return upstream.reshape(len(upstream), *saved[0].shape[1:])


class ReLU(Parameterless):
    """max(a, 0), with derivative 0 at 0."""

    def forward(self, parameters: Tensor, inputs: Tensor) -> tuple[Tensor, Saved]:  # noqa: ARG002
        outputs = inputs.relu()
        return outputs, (outputs,)

    def input_gradient(self, parameters: Tensor, saved: Saved, upstream: Tensor) -> Tensor:  # noqa: ARG002
        return torch.ops.aten.threshold_backward(upstream, saved[0], 0)  # type: ignore[no-any-return]


class MaxPool(Parameterless):
    """The maximum of every 2×2 window."""

    def forward(self, parameters: Tensor, inputs: Tensor) -> tuple[Tensor, Saved]:  # noqa: ARG002
        outputs, code = pool(inputs)
        return outputs, (inputs, code)

    def input_gradient(self, parameters: Tensor, saved: Saved, upstream: Tensor) -> Tensor:  # noqa: ARG002
        inputs, code = saved
        return unpool(upstream, code, (inputs.shape[2], inputs.shape[3]))


def _corners(images: Tensor, cells: tuple[int, int]) -> list[Tensor]:
    """The four positions of all 2×2 windows of (N, C, H, W, B), as views (N, C, H/2, W/2, B)."""
    height, width = 2 * cells[0], 2 * cells[1]
    return [images[:, :, top:height:2, left:width:2] for top in (0, 1) for left in (0, 1)]


def pool(images: Tensor) -> tuple[Tensor, Tensor]:
    """Maxima of the 2×2 windows and, in uint8, the position 0…3 of each: the first if there are several."""
    best, *others = _corners(images, (images.shape[2] // 2, images.shape[3] // 2))
    code = torch.zeros_like(best, dtype=torch.uint8)
    for position, values in enumerate(others, start=1):
        better = (values > best) | values.isnan()  # NaN wins, so that a diverged model shows
        best = torch.where(better, values, best)
        code = torch.where(better, position, code)
    return best, code


def unpool(upstream: Tensor, code: Tensor, size: tuple[int, int]) -> Tensor:
    """The gradient of `pool` with respect to images of the given height and width."""
    images = upstream.new_zeros(*upstream.shape[:2], *size, upstream.shape[-1])
    for position, corner in enumerate(_corners(images, (upstream.shape[2], upstream.shape[3]))):
        corner.copy_(torch.where(code == position, upstream, 0))
    return images
