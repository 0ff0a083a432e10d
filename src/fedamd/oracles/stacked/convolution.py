"""Convolution layers of N models at once, alone or fused with the ReLU and 2×2 max-pooling that follow.

In plain PyTorch a convolution is a matrix product with the unfolded input (im2col): any device, any precision. On a GPU
in float32 the fused block runs through the kernels of `triton_conv`, which never write the unpooled outputs to memory:
the forward pass keeps the pooled outputs and one byte each for where the maximum was, and the backward pass works from
those. Both paths compute the same function.
"""

import math
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor
from torch.nn import functional

from fedamd.oracles.stacked.layers import Saved, pool, split_weight, spread, unpool

DEAD = 4  # in place of a window position 0…3: ReLU was at zero in the whole window, no gradient passes
OLDEST_TRITON = (3, 4)  # earlier ones cannot carry tuples through loops
MOST_TAPS = 49  # larger kernels would not fit the registers of the fused block


@dataclass(frozen=True)
class Geometry:
    """What an nn.Conv2d with one group and no dilation does to images (C, H, W)."""

    inputs: tuple[int, int, int]
    channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)

    @property
    def outputs(self) -> tuple[int, int, int]:
        height, width = (
            (side + 2 * pad - taps) // step + 1
            for side, pad, taps, step in zip(self.inputs[1:], self.padding, self.kernel, self.stride, strict=True)
        )
        return self.channels, height, width

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]

    def unfold(self, images: Tensor) -> Tensor:
        """(M, C, H, W, B) to (M, C·taps, positions·B): below every output position, the inputs that it sees."""
        height, width = self.padding
        padded = functional.pad(images, (0, 0, width, width, height, height))
        patches = padded.unfold(2, self.kernel[0], self.stride[0]).unfold(3, self.kernel[1], self.stride[1])
        return patches.permute(0, 1, 5, 6, 2, 3, 4).flatten(4).flatten(1, 3)

    def fold(self, columns: Tensor, batch: int) -> Tensor:
        """The transpose of `unfold`: every column entry is added to the input it was read from."""
        channels, height, width = self.inputs
        _, rows, positions = self.outputs
        (top, left), (down, across) = self.padding, self.stride
        padded = columns.new_zeros(len(columns), channels, height + 2 * top, width + 2 * left, batch)
        parts = columns.view(len(columns), channels, *self.kernel, rows, positions, batch)
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                seen = padded[:, :, i : i + down * rows : down, j : j + across * positions : across]
                seen += parts[:, :, i, j]
        return padded[:, :, top : top + height, left : left + width].contiguous()


class Conv:
    """y = W ∗ a + b."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.shape: tuple[int, ...] = geometry.outputs
        self.size = (geometry.inputs[0] * geometry.taps + 1) * geometry.channels

    def scratch(self, values: Tensor) -> int:  # noqa: ARG002
        _, height, width = self.geometry.outputs
        return self.geometry.inputs[0] * self.geometry.taps * height * width

    def forward(self, parameters: Tensor, inputs: Tensor) -> tuple[Tensor, Saved]:
        weight, bias = split_weight(parameters, self.geometry.channels)
        columns = spread(self.geometry.unfold(inputs), len(weight))
        outputs = torch.baddbmm(bias, weight, columns)
        return outputs.view(len(outputs), *self.geometry.outputs, -1), (inputs,)

    def backward(self, parameters: Tensor, saved: Saved, upstream: Tensor, gradient: Tensor) -> None:  # noqa: ARG002
        weight, bias = split_weight(gradient, self.geometry.channels)
        columns = spread(self.geometry.unfold(saved[0]), len(weight))
        torch.bmm(upstream.flatten(2), columns.transpose(1, 2), out=weight)
        torch.sum(upstream.flatten(2), 2, keepdim=True, out=bias)

    def input_gradient(self, parameters: Tensor, saved: Saved, upstream: Tensor) -> Tensor:  # noqa: ARG002
        weight, _ = split_weight(parameters, self.geometry.channels)
        return self.geometry.fold(torch.bmm(weight.transpose(1, 2), upstream.flatten(2)), upstream.shape[-1])


class ConvReLUPool:
    """y = the maximum over 2×2 windows of max(W ∗ a + b, 0)."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.conv = Conv(geometry)
        channels, height, width = geometry.outputs
        self.shape: tuple[int, ...] = (channels, height // 2, width // 2)
        self.size = self.conv.size

    def scratch(self, values: Tensor) -> int:
        return 0 if self._fused(values) else self.conv.scratch(values) + math.prod(self.geometry.outputs)

    def _fused(self, values: Tensor) -> bool:
        geometry = self.geometry
        plain = geometry.stride == (1, 1) and geometry.padding == (0, 0) and geometry.taps <= MOST_TAPS
        return plain and has_kernels(values)

    def forward(self, parameters: Tensor, inputs: Tensor) -> tuple[Tensor, Saved]:
        if self._fused(inputs):
            from fedamd.oracles.stacked import triton_convolution as triton_conv

            outputs, code = triton_conv.forward(parameters, inputs, self.geometry.channels, self.geometry.kernel)
        else:
            best, code = pool(self.conv.forward(parameters, inputs)[0])
            outputs, code = best.relu(), torch.where(best <= 0, DEAD, code)
        return outputs, (inputs, code)

    def backward(self, parameters: Tensor, saved: Saved, upstream: Tensor, gradient: Tensor) -> None:
        inputs, code = saved
        if self._fused(inputs):
            from fedamd.oracles.stacked import triton_convolution as triton_conv

            triton_conv.weight_gradient(inputs, upstream, code, self.geometry.kernel, gradient)
        else:
            self.conv.backward(parameters, saved, self._unpool(upstream, code), gradient)

    def input_gradient(self, parameters: Tensor, saved: Saved, upstream: Tensor) -> Tensor:
        code = saved[1]
        if self._fused(upstream):
            from fedamd.oracles.stacked import triton_convolution as triton_conv

            return triton_conv.input_gradient(parameters, upstream, code, self.geometry.inputs, self.geometry.kernel)
        return self.conv.input_gradient(parameters, saved, self._unpool(upstream, code))

    def _unpool(self, upstream: Tensor, code: Tensor) -> Tensor:
        return unpool(upstream, code, self.geometry.outputs[1:])


def has_kernels(values: Tensor) -> bool:
    """Whether the Triton kernels can work on such values here."""
    return values.is_cuda and values.dtype == torch.float32 and _has_triton()


@cache
def _has_triton() -> bool:
    if find_spec("triton") is None:
        return False
    import triton

    major, minor = triton.__version__.split(".")[:2]
    return (int(major), int(minor)) >= OLDEST_TRITON
