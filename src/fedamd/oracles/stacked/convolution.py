"""Convolution layers of N models at once, alone or fused with the ReLU and 2×2 max-pooling that follow.

In plain PyTorch a convolution is a matrix product with the unfolded input (im2col): any device, any precision. On a GPU
in float32 the fused block runs through the kernels of `triton_convolution`, which never write the unpooled outputs to
memory: the forward pass keeps the pooled outputs and one byte each for where the maximum was, and the backward pass
works from those. Both paths compute the same function.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from fedamd.oracles.stacked.kernels import has_kernels
from fedamd.oracles.stacked.layers import Saved, pool, split_weight, spread, unpool
from fedamd.oracles.stacked.products import product, weight_gradient

DEAD = 4  # in place of a window position 0…3: ReLU was at zero in the whole window, no gradient passes
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

    @cached_property
    def live(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The rows and columns of the kernel that ever meet the image: of 3×3 on a 1×1 image only the centre."""
        rows, columns = (
            [tap for tap in range(taps) if any(0 <= at * step + tap - pad < side for at in range(positions))]
            for side, positions, taps, step, pad in zip(
                self.inputs[1:], self.outputs[1:], self.kernel, self.stride, self.padding, strict=True
            )
        )
        return (rows[0], rows[-1] + 1), (columns[0], columns[-1] + 1)

    def cropped(self, weight: Tensor) -> Tensor:
        """The live taps of weights (N, C', C, rows, columns), as a view."""
        rows, columns = self.live
        return weight[:, :, :, rows[0] : rows[1], columns[0] : columns[1]]

    @cached_property
    def live_kernel(self) -> tuple[int, int]:
        """How many rows and columns those are."""
        (top, bottom), (left, right) = self.live
        return bottom - top, right - left

    @cached_property
    def _margins(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Padding before and after along each side, as far as live taps reach; less than nothing where they do not."""
        before = [pad - first for pad, (first, _) in zip(self.padding, self.live, strict=True)]
        after = [
            (positions - 1) * step + taps - side - pad
            for positions, step, taps, side, pad in zip(
                self.outputs[1:], self.stride, self.live_kernel, self.inputs[1:], before, strict=True
            )
        ]
        return (before[0], after[0]), (before[1], after[1])

    def padded(self, images: Tensor, value: float) -> Tensor:
        """(M, C, H, W, B) with margins, so that every live tap finds something at every position."""
        (top, bottom), (left, right) = self._margins
        return functional.pad(images, (0, 0, left, right, top, bottom), value=value)

    def inside(self, padded: Tensor) -> Tensor:
        """`padded` undone."""
        (top, bottom), (left, right) = self._margins
        return functional.pad(padded, (0, 0, -left, -right, -top, -bottom))

    def seen(self, padded: Tensor) -> list[Tensor]:
        """For every live tap, what it sees of padded images at all positions, as views (M, C, H', W', B)."""
        (down, across), (_, rows, columns) = self.stride, self.outputs
        return [
            padded[:, :, i : i + down * (rows - 1) + 1 : down, j : j + across * (columns - 1) + 1 : across]
            for i in range(self.live_kernel[0])
            for j in range(self.live_kernel[1])
        ]

    @property
    def windows(self) -> tuple[int, ...]:
        """As kernels take them: sizes of images, positions, live taps, stride, and margins above and to the left."""
        (top, _), (left, _) = self._margins
        return (*self.inputs[1:], *self.outputs[1:], *self.live_kernel, *self.stride, top, left)

    @property
    def _pointwise(self) -> bool:
        """Whether every position sees its own pixel alone, so that the image is its own columns."""
        return self.live_kernel == self.stride == (1, 1) and self._margins == ((0, 0), (0, 0))

    def _by_kernels(self, values: Tensor, batch: int) -> bool:
        """The kernels count a model's columns in 32 bits."""
        return has_kernels(values) and math.prod((self.inputs[0], *self.windows[2:6], batch)) < 1 << 31

    def unfold(self, images: Tensor) -> Tensor:
        """(M, C, H, W, B) to (M, C·taps, positions·B): below every output position, the inputs that live taps see."""
        if self._pointwise:
            return images.flatten(2)
        if self._by_kernels(images, images.shape[-1]):
            from fedamd.oracles.stacked import triton_columns

            return triton_columns.unfold(images, self)
        patches = self.padded(images, 0.0)
        for axis, taps, step in zip((2, 3), self.live_kernel, self.stride, strict=True):
            patches = patches.unfold(axis, taps, step)
        return patches.permute(0, 1, 5, 6, 2, 3, 4).flatten(4).flatten(1, 3)

    def fold(self, columns: Tensor, batch: int, start: Tensor | None = None) -> Tensor:
        """The transpose of `unfold`, on top of `start`: every column entry is added to the input it was read from."""
        if self._by_kernels(columns, batch) and not self._pointwise:
            from fedamd.oracles.stacked import triton_columns

            return triton_columns.fold(columns, self, batch, start)
        images = columns.view(len(columns), *self.inputs, batch) if self._pointwise else self._gathered(columns, batch)
        return images if start is None else images + start

    def _gathered(self, columns: Tensor, batch: int) -> Tensor:
        padded = self.padded(columns.new_zeros(len(columns), *self.inputs, batch), 0.0)
        parts = columns.view(len(columns), self.inputs[0], -1, *self.outputs[1:], batch)
        for seen, part in zip(self.seen(padded), parts.unbind(2), strict=True):
            seen += part
        return self.inside(padded).contiguous()


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
        outputs = product(self._live(weight).flatten(2), columns, start=bias)
        return outputs.view(len(outputs), *self.geometry.outputs, -1), (inputs,)

    def backward(self, parameters: Tensor, saved: Saved, upstream: Tensor, gradient: Tensor) -> None:  # noqa: ARG002
        weight, bias = split_weight(gradient, self.geometry.channels)
        columns = spread(self.geometry.unfold(saved[0]), len(weight))
        live = self._live(weight)
        if live.shape[-2:] == self.geometry.kernel:
            weight_gradient(upstream.flatten(2), columns, weight, bias)
        else:
            part = torch.empty_like(live.flatten(2))
            weight_gradient(upstream.flatten(2), columns, part, bias)
            weight.zero_()
            live.copy_(part.view_as(live))

    def input_gradient(self, parameters: Tensor, saved: Saved, upstream: Tensor) -> Tensor:  # noqa: ARG002
        weight, _ = split_weight(parameters, self.geometry.channels)
        columns = product(self._live(weight).flatten(2).transpose(1, 2), upstream.flatten(2))
        return self.geometry.fold(columns, upstream.shape[-1])

    def _live(self, weight: Tensor) -> Tensor:
        """Of weights (N, C', C·taps) those that ever meet the image, (N, C', C, rows, columns)."""
        return self.geometry.cropped(weight.view(*weight.shape[:2], self.geometry.inputs[0], *self.geometry.kernel))


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
            from fedamd.oracles.stacked import triton_convolution

            outputs, code = triton_convolution.forward(parameters, inputs, self.geometry.channels, self.geometry.kernel)
        else:
            best, code = pool(self.conv.forward(parameters, inputs)[0])
            outputs, code = best.relu(), torch.where(best <= 0, DEAD, code)
        return outputs, (inputs, code)

    def backward(self, parameters: Tensor, saved: Saved, upstream: Tensor, gradient: Tensor) -> None:
        inputs, code = saved
        if self._fused(inputs):
            from fedamd.oracles.stacked import triton_convolution

            triton_convolution.weight_gradient(inputs, upstream, code, self.geometry.kernel, gradient)
        else:
            self.conv.backward(parameters, saved, self._unpool(upstream, code), gradient)

    def input_gradient(self, parameters: Tensor, saved: Saved, upstream: Tensor) -> Tensor:
        code = saved[1]
        if self._fused(upstream):
            from fedamd.oracles.stacked import triton_convolution

            geometry = self.geometry
            return triton_convolution.input_gradient(parameters, upstream, code, geometry.inputs, geometry.kernel)
        return self.conv.input_gradient(parameters, saved, self._unpool(upstream, code))

    def _unpool(self, upstream: Tensor, code: Tensor) -> Tensor:
        return unpool(upstream, code, self.geometry.outputs[1:])
