"""Triton kernels of group normalisation for N models at once (NVIDIA GPUs, float32).

Activations are (N, C, …, B), the batch innermost. A program has one group of one model for LANES samples and goes
through the group's members (channels × positions) ROWS at a time. Sizes are run-time numbers: one compilation serves
every layer. No sum depends on how many models there are.
"""

# The kernels below are in Triton's language, which only borrows Python's syntax.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, LANES = 128, 16
BLOCK = 1024  # elements of a channel at once

_SIZES = ["channels", "groups", "positions", "batch", "epsilon", "stride", "bias_stride"]
_kernel = triton.jit(do_not_specialize=_SIZES)


@_kernel
def _forward(
    images, weight, bias, out, means, scales, channels, groups, positions, batch, epsilon, stride, bias_stride,
    ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Mean and 1/√(variance + ε) of a group, then its outputs."""
    model = (tl.program_id(0) // groups).to(tl.int64)
    group = tl.program_id(0) % groups
    members = channels // groups * positions
    sample = tl.program_id(1) * LANES + tl.arange(0, LANES)
    start = (model * channels * positions + group * members) * batch
    row = tl.arange(0, ROWS)
    total = tl.zeros((ROWS, LANES), tl.float32)
    for first in range(0, members, ROWS):
        inside = (first + row < members)[:, None] & (sample < batch)[None, :]
        total += tl.load(images + start + (first + row)[:, None] * batch + sample[None, :], mask=inside, other=0.0)
    mean = tl.sum(total, 0) / members
    total = tl.zeros((ROWS, LANES), tl.float32)
    for first in range(0, members, ROWS):
        inside = (first + row < members)[:, None] & (sample < batch)[None, :]
        values = tl.load(images + start + (first + row)[:, None] * batch + sample[None, :], mask=inside, other=0.0)
        away = tl.where(inside, values - mean[None, :], 0.0)
        total += away * away
    scale = 1.0 / tl.sqrt(tl.sum(total, 0) / members + epsilon)
    kept = tl.program_id(0).to(tl.int64) * batch + sample
    tl.store(means + kept, mean, mask=sample < batch)
    tl.store(scales + kept, scale, mask=sample < batch)
    for first in range(0, members, ROWS):
        member = first + row
        inside = (member < members)[:, None] & (sample < batch)[None, :]
        at = start + member[:, None] * batch + sample[None, :]
        channel = group * (channels // groups) + member // positions
        w = tl.load(weight + model * stride + channel, mask=member < members, other=0.0)
        b = tl.load(bias + model * bias_stride + channel, mask=member < members, other=0.0)
        values = tl.load(images + at, mask=inside, other=0.0)
        tl.store(out + at, (values - mean[None, :]) * scale[None, :] * w[:, None] + b[:, None], mask=inside)


@_kernel
def _input_gradient(
    images, weight, means, scales, upstream, out, channels, groups, positions, batch, stride,
    ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """scale · (s − mean of s − a · mean of s·a), where a are the normalised inputs and s = weight · upstream."""
    model = (tl.program_id(0) // groups).to(tl.int64)
    group = tl.program_id(0) % groups
    members = channels // groups * positions
    sample = tl.program_id(1) * LANES + tl.arange(0, LANES)
    start = (model * channels * positions + group * members) * batch
    kept = tl.program_id(0).to(tl.int64) * batch + sample
    mean = tl.load(means + kept, mask=sample < batch, other=0.0)
    scale = tl.load(scales + kept, mask=sample < batch, other=0.0)
    row = tl.arange(0, ROWS)
    straight = tl.zeros((ROWS, LANES), tl.float32)
    turned = tl.zeros((ROWS, LANES), tl.float32)
    for first in range(0, members, ROWS):
        member = first + row
        inside = (member < members)[:, None] & (sample < batch)[None, :]
        at = start + member[:, None] * batch + sample[None, :]
        channel = group * (channels // groups) + member // positions
        w = tl.load(weight + model * stride + channel, mask=member < members, other=0.0)
        slope = tl.load(upstream + at, mask=inside, other=0.0) * w[:, None]
        normal = (tl.load(images + at, mask=inside, other=0.0) - mean[None, :]) * scale[None, :]
        straight += slope
        turned += slope * normal
    s1 = tl.sum(straight, 0) / members
    s2 = tl.sum(turned, 0) / members
    for first in range(0, members, ROWS):
        member = first + row
        inside = (member < members)[:, None] & (sample < batch)[None, :]
        at = start + member[:, None] * batch + sample[None, :]
        channel = group * (channels // groups) + member // positions
        w = tl.load(weight + model * stride + channel, mask=member < members, other=0.0)
        slope = tl.load(upstream + at, mask=inside, other=0.0) * w[:, None]
        normal = (tl.load(images + at, mask=inside, other=0.0) - mean[None, :]) * scale[None, :]
        tl.store(out + at, scale[None, :] * (slope - s1[None, :] - normal * s2[None, :]), mask=inside)


@_kernel
def _parameter_gradient(
    images, means, scales, upstream, of_weight, of_bias, channels, groups, positions, batch, BLOCK: tl.constexpr,
):  # fmt: skip
    """One channel of one model, summed over positions and samples."""
    program = tl.program_id(0).to(tl.int64)
    group = program // channels * groups + program % channels // (channels // groups)
    turned = tl.zeros((BLOCK,), tl.float32)
    straight = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, positions * batch, BLOCK):
        element = first + tl.arange(0, BLOCK)
        inside = element < positions * batch
        kept = group * batch + element % batch
        mean = tl.load(means + kept, mask=inside, other=0.0)
        scale = tl.load(scales + kept, mask=inside, other=0.0)
        at = program * positions * batch + element
        slope = tl.load(upstream + at, mask=inside, other=0.0)
        turned += slope * (tl.load(images + at, mask=inside, other=0.0) - mean) * scale
        straight += slope
    tl.store(of_weight + program, tl.sum(turned, 0))
    tl.store(of_bias + program, tl.sum(straight, 0))


def _sizes(images: Tensor, groups: int) -> tuple[int, int, int, int]:
    """Channels, groups, positions and samples of contiguous (N, C, …, B)."""
    channels, batch = images.shape[1], images.shape[-1]
    return channels, groups, images[0, 0].numel() // batch, batch


def forward(images: Tensor, weight: Tensor, bias: Tensor, groups: int, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs, means and scales (N, groups, B) of contiguous images; weights (N, C), rows any distance apart."""
    batch = images.shape[-1]
    out = torch.empty_like(images)
    means = images.new_empty(len(images), groups, batch)
    scales = torch.empty_like(means)
    grid = (len(images) * groups, triton.cdiv(batch, LANES))
    _forward[grid](
        images, weight, bias, out, means, scales, *_sizes(images, groups), epsilon, weight.stride(0), bias.stride(0),
        ROWS=ROWS, LANES=LANES,
    )  # fmt: skip
    return out, means, scales


def backward(
    images: Tensor, weight: Tensor, means: Tensor, scales: Tensor, upstream: Tensor, groups: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients with respect to images, weights (N, C) and biases (N, C)."""
    sizes = _sizes(images, groups)
    out = torch.empty_like(images)
    of_weight, of_bias = images.new_empty(images.shape[:2]), images.new_empty(images.shape[:2])
    grid = (len(images) * groups, triton.cdiv(images.shape[-1], LANES))
    _input_gradient[grid](
        images, weight, means, scales, upstream, out, *sizes, weight.stride(0), ROWS=ROWS, LANES=LANES
    )
    _parameter_gradient[(len(images) * images.shape[1],)](
        images, means, scales, upstream, of_weight, of_bias, *sizes, BLOCK=BLOCK
    )
    return out, of_weight, of_bias
