"""Triton kernels of group normalisation for N models at once (NVIDIA GPUs, float32), with what follows it in a network.

Activations are (N, C, …, B), the batch innermost. A program has one group of one model for LANES samples and goes
through the group's members (channels × positions) ROWS at a time. Sizes, and whether a sum with other images and ReLU
follow, are run-time numbers: one compilation serves every layer. No sum depends on how many models there are.
"""

# The kernels below are in Triton's language, which only borrows Python's syntax.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, LANES, WARPS = 512, 8, 8
ROWS_BACK = 256  # of three tensors at once
POSITIONS, SAMPLES = 8, 64  # of a channel at once

_SIZES = ["channels", "groups", "positions", "batch", "epsilon", "stride", "bias_stride", "adds", "rectifies"]
_kernel = triton.jit(
    do_not_specialize=_SIZES, do_not_specialize_on_alignment=["weight", "bias", "of_weight", "of_bias"]
)


@triton.jit
def _place(batch, LANES: tl.constexpr):
    """The program's group, over all models, and its samples: all samples of a group at about the same time."""
    blocks = tl.cdiv(batch, LANES)
    sample = tl.program_id(0) % blocks * LANES + tl.arange(0, LANES)
    return (tl.program_id(0) // blocks).to(tl.int64), sample


@_kernel
def _forward(
    images, weight, bias, other, out, means, scales,
    channels, groups, positions, batch, epsilon, stride, bias_stride, adds, rectifies,
    ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Mean and 1/√(variance + ε) of a group, then its outputs."""
    place, sample = _place(batch, LANES)
    model, group = place // groups, (place % groups).to(tl.int32)
    members = channels // groups * positions
    start = (model * channels * positions + group * members) * batch
    row = tl.arange(0, ROWS)
    total = tl.zeros((ROWS, LANES), tl.float32)
    for first in range(0, members, ROWS):
        inside = (first + row < members)[:, None] & (sample < batch)[None, :]
        total += tl.load(images + start + ((first + row)[:, None] * batch + sample[None, :]), mask=inside, other=0.0)
    mean = tl.sum(total, 0) / members
    total = tl.zeros((ROWS, LANES), tl.float32)
    for first in range(0, members, ROWS):
        inside = (first + row < members)[:, None] & (sample < batch)[None, :]
        values = tl.load(images + start + ((first + row)[:, None] * batch + sample[None, :]), mask=inside, other=0.0)
        away = tl.where(inside, values - mean[None, :], 0.0)
        total += away * away
    scale = 1.0 / tl.sqrt(tl.sum(total, 0) / members + epsilon)
    kept = place * batch + sample
    tl.store(means + kept, mean, mask=sample < batch)
    tl.store(scales + kept, scale, mask=sample < batch)
    for first in range(0, members, ROWS):
        member = first + row
        inside = (member < members)[:, None] & (sample < batch)[None, :]
        at = member[:, None] * batch + sample[None, :]
        channel = group * (channels // groups) + member // positions
        w = tl.load(weight + model * stride + channel, mask=member < members, other=0.0)
        b = tl.load(bias + model * bias_stride + channel, mask=member < members, other=0.0)
        values = (tl.load(images + start + at, mask=inside, other=0.0) - mean[None, :]) * scale[None, :]
        values = values * w[:, None] + b[:, None]
        values += tl.load(other + start + at, mask=inside & (adds != 0), other=0.0)
        tl.store(out + start + at, tl.where((values < 0) & (rectifies != 0), 0.0, values), mask=inside)


@triton.jit
def _slope(upstream, outputs, at, inside, rectifies):
    """What comes back through ReLU."""
    slope = tl.load(upstream + at, mask=inside, other=0.0)
    after = tl.load(outputs + at, mask=inside & (rectifies != 0), other=1.0)
    return tl.where(after <= 0, 0.0, slope)


@_kernel
def _input_gradient(
    images, outputs, weight, means, scales, upstream, out, of_other,
    channels, groups, positions, batch, stride, adds, rectifies,
    ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """scale · (s − mean of s − a · mean of s·a), where a are the normalised inputs and s = weight · what comes back."""
    place, sample = _place(batch, LANES)
    model, group = place // groups, (place % groups).to(tl.int32)
    members = channels // groups * positions
    start = (model * channels * positions + group * members) * batch
    kept = place * batch + sample
    mean = tl.load(means + kept, mask=sample < batch, other=0.0)
    scale = tl.load(scales + kept, mask=sample < batch, other=0.0)
    row = tl.arange(0, ROWS)
    straight = tl.zeros((ROWS, LANES), tl.float32)
    turned = tl.zeros((ROWS, LANES), tl.float32)
    for first in range(0, members, ROWS):
        member = first + row
        inside = (member < members)[:, None] & (sample < batch)[None, :]
        at = member[:, None] * batch + sample[None, :]
        channel = group * (channels // groups) + member // positions
        w = tl.load(weight + model * stride + channel, mask=member < members, other=0.0)
        slope = _slope(upstream + start, outputs + start, at, inside, rectifies) * w[:, None]
        normal = (tl.load(images + start + at, mask=inside, other=0.0) - mean[None, :]) * scale[None, :]
        straight += slope
        turned += slope * normal
    s1 = tl.sum(straight, 0) / members
    s2 = tl.sum(turned, 0) / members
    for first in range(0, members, ROWS):
        member = first + row
        inside = (member < members)[:, None] & (sample < batch)[None, :]
        at = member[:, None] * batch + sample[None, :]
        channel = group * (channels // groups) + member // positions
        w = tl.load(weight + model * stride + channel, mask=member < members, other=0.0)
        slope = _slope(upstream + start, outputs + start, at, inside, rectifies)
        tl.store(of_other + start + at, slope, mask=inside & (adds != 0))
        normal = (tl.load(images + start + at, mask=inside, other=0.0) - mean[None, :]) * scale[None, :]
        tl.store(
            out + start + at, scale[None, :] * (slope * w[:, None] - s1[None, :] - normal * s2[None, :]), mask=inside
        )


@_kernel
def _parameter_gradient(
    images, outputs, means, scales, upstream, of_weight, of_bias,
    channels, groups, positions, batch, stride, bias_stride, rectifies, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """One channel of one model, summed over positions and samples."""
    program = tl.program_id(0).to(tl.int64)
    model, channel = program // channels, program % channels
    group = model * groups + channel // (channels // groups)
    start = program * positions * batch
    turned = tl.zeros((ROWS, LANES), tl.float32)
    straight = tl.zeros((ROWS, LANES), tl.float32)
    for lane in range(0, batch, LANES):
        sample = lane + tl.arange(0, LANES)
        mean = tl.load(means + group * batch + sample, mask=sample < batch, other=0.0)
        scale = tl.load(scales + group * batch + sample, mask=sample < batch, other=0.0)
        for first in range(0, positions, ROWS):
            position = first + tl.arange(0, ROWS)
            inside = (position < positions)[:, None] & (sample < batch)[None, :]
            at = position[:, None] * batch + sample[None, :]
            slope = _slope(upstream + start, outputs + start, at, inside, rectifies)
            normal = (tl.load(images + start + at, mask=inside, other=0.0) - mean[None, :]) * scale[None, :]
            turned += slope * normal
            straight += slope
    tl.store(of_weight + model * stride + channel, tl.sum(tl.sum(turned, 1), 0))
    tl.store(of_bias + model * bias_stride + channel, tl.sum(tl.sum(straight, 1), 0))


@dataclass(frozen=True)
class Kept:
    """What the backward pass needs: what came in and out, each group's mean and scale, and whether ReLU followed."""

    images: Tensor
    outputs: Tensor
    means: Tensor
    scales: Tensor
    rectified: bool


def _sizes(images: Tensor, groups: int) -> tuple[int, int, int, int]:
    """Channels, groups, positions and samples of contiguous (N, C, …, B)."""
    channels, batch = images.shape[1], images.shape[-1]
    return channels, groups, images[0, 0].numel() // batch, batch


def _grid(images: Tensor, groups: int) -> tuple[int]:
    return (len(images) * groups * int(triton.cdiv(images.shape[-1], LANES)),)


def forward(
    images: Tensor, weight: Tensor, bias: Tensor, groups: int, epsilon: float, other: Tensor | None, rectified: bool
) -> tuple[Tensor, Kept]:
    """Outputs for weights and biases (N, C), rows any distance apart; plus `other` images; through ReLU if asked."""
    images = images.contiguous()
    out = torch.empty_like(images)
    means = images.new_empty(len(images), groups, images.shape[-1])
    scales = torch.empty_like(means)
    _forward[_grid(images, groups)](
        images, weight, bias, images if other is None else other.contiguous(), out, means, scales,
        *_sizes(images, groups), epsilon, weight.stride(0), bias.stride(0), int(other is not None), int(rectified),
        ROWS=ROWS, LANES=LANES, num_warps=WARPS,
    )  # fmt: skip
    return out, Kept(images, out, means, scales, rectified)


def input_gradient(kept: Kept, weight: Tensor, upstream: Tensor, groups: int, added: bool) -> list[Tensor]:
    """With respect to images, and to what was `added` if so; `upstream` is contiguous."""
    out = torch.empty_like(kept.images)
    of_other = torch.empty_like(out) if added else out
    _input_gradient[_grid(out, groups)](
        kept.images, kept.outputs, weight, kept.means, kept.scales, upstream, out, of_other,
        *_sizes(out, groups), weight.stride(0), int(added), int(kept.rectified),
        ROWS=ROWS_BACK, LANES=LANES, num_warps=WARPS,
    )  # fmt: skip
    return [out, of_other] if added else [out]


def parameter_gradient(kept: Kept, upstream: Tensor, of_weight: Tensor, of_bias: Tensor, groups: int) -> None:
    """Fill in those of weights and biases (N, C), rows any distance apart; `upstream` is contiguous."""
    images = kept.images
    _parameter_gradient[(len(images) * images.shape[1],)](
        images, kept.outputs, kept.means, kept.scales, upstream, of_weight, of_bias,
        *_sizes(images, groups), of_weight.stride(0), of_bias.stride(0), int(kept.rectified),
        ROWS=POSITIONS, LANES=SAMPLES,
    )  # fmt: skip
