"""Layers of N models at once as differentiable functions, for networks that are graphs.

Activations are (N, C, H, W, B) or (N, features, B): the batch is the last axis, so that a convolution is one batched
matrix product with the unfolded input. Every model has its own parameters, (N, …). The derivatives are written out
where automatic ones would launch many small kernels; where Triton's kernels can run, the normalisation does.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from fedamd.oracles.stacked.convolution import Geometry
from fedamd.oracles.stacked.kernels import has_kernels


def convolution(images: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:
    """y = W ∗ a + b for weights (N, C', C, rows, columns) and biases (N, C')."""
    outputs: Tensor = _Convolution.apply(images, weight, geometry)  # type: ignore[no-untyped-call]
    return outputs if bias is None else outputs + bias[:, :, None, None, None]


def group_norm(images: Tensor, weight: Tensor, bias: Tensor, groups: int, epsilon: float) -> Tensor:
    """(a − mean)/√(variance + ε) over each of the groups of channels, times weights (N, C), plus biases (N, C)."""
    outputs: Tensor = _GroupNorm.apply(images, weight, bias, groups, epsilon)  # type: ignore[no-untyped-call]
    return outputs


def max_pool(images: Tensor, geometry: Geometry) -> Tensor:
    """The maximum of every window: the gradient goes to the first of equals."""
    outputs: Tensor = _MaxPool.apply(images, geometry)  # type: ignore[no-untyped-call]
    return outputs


class _Convolution(Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, geometry: Geometry) -> Tensor:
        ctx.save_for_backward(images, weight)
        ctx.geometry = geometry
        outputs = torch.bmm(_live(weight, geometry), geometry.unfold(images))
        return outputs.view(len(outputs), *geometry.outputs, -1)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        images, weight = ctx.saved_tensors
        geometry: Geometry = ctx.geometry
        flat = upstream.flatten(2)
        live = torch.bmm(flat, geometry.unfold(images).transpose(1, 2))
        of_weight = _whole(live, weight, geometry)
        if not ctx.needs_input_grad[0]:
            return None, of_weight, None
        if geometry.stride == (1, 1):  # again a convolution, of what came back with the mirrored kernel
            mirrored = geometry.cropped(weight).flip(3, 4).transpose(1, 2).flatten(2)
            of_images = torch.bmm(mirrored, geometry.unfold_back(upstream)).view_as(images)
        else:
            columns = torch.bmm(_live(weight, geometry).transpose(1, 2), flat)
            of_images = geometry.fold(columns, images.shape[-1])
        return of_images, of_weight, None


def _live(weight: Tensor, geometry: Geometry) -> Tensor:
    """The weights that ever meet the image, as matrices (N, C', C·taps)."""
    return geometry.cropped(weight).flatten(2)


def _whole(live: Tensor, weight: Tensor, geometry: Geometry) -> Tensor:
    """The gradient of all weights from that of the live ones: the others only ever meet padding."""
    if live[0].numel() == weight[0].numel():
        return live.view_as(weight)
    whole = torch.zeros_like(weight, memory_format=torch.contiguous_format)
    part = geometry.cropped(whole)
    part.copy_(live.view_as(part))
    return whole


class _GroupNorm(Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, bias: Tensor, groups: int, epsilon: float) -> Tensor:
        ctx.groups = groups
        if has_kernels(images):
            from fedamd.oracles.stacked import triton_group_norm

            images = images.contiguous()
            outputs, mean, scale = triton_group_norm.forward(images, weight, bias, groups, epsilon)
        else:
            grouped = _grouped(images, groups)
            variance, mean = torch.var_mean(grouped, 2, correction=0, keepdim=True)
            scale = (variance + epsilon).rsqrt()
            normal = ((grouped - mean) * scale).view_as(images)
            outputs = torch.addcmul(_per_channel(bias, images), normal, _per_channel(weight, images))
        ctx.save_for_backward(images, weight, mean, scale)
        return outputs

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        images, weight, mean, scale = ctx.saved_tensors
        if has_kernels(images):
            from fedamd.oracles.stacked import triton_group_norm

            of_images, of_weight, of_bias = triton_group_norm.backward(
                images, weight, mean, scale, upstream.contiguous(), ctx.groups
            )
            return of_images, of_weight, of_bias, None, None
        normal = ((_grouped(images, ctx.groups) - mean) * scale).view_as(images)
        along = tuple(range(2, images.dim()))
        of_weight, of_bias = (upstream * normal).sum(along), upstream.sum(along)
        slope = _grouped(upstream * _per_channel(weight, images), ctx.groups)
        grouped = _grouped(normal, ctx.groups)
        turned = (slope * grouped).mean(2, keepdim=True)
        of_images = scale * (slope - slope.mean(2, keepdim=True) - grouped * turned)
        return of_images.view_as(images), of_weight, of_bias, None, None


def _grouped(images: Tensor, groups: int) -> Tensor:
    """(N, groups, members, B)."""
    return images.reshape(len(images), groups, -1, images.shape[-1])


def _per_channel(values: Tensor, images: Tensor) -> Tensor:
    """(N, C) against images."""
    return values.reshape(*values.shape, *(1 for _ in images.shape[2:]))


class _MaxPool(Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, geometry: Geometry) -> Tensor:
        best, *others = geometry.seen(geometry.padded(images, -torch.inf))
        code = torch.zeros_like(best, dtype=torch.uint8)
        for tap, values in enumerate(others, start=1):
            code = torch.where(values > best, tap, code)
            best = torch.maximum(best, values)  # lets NaN through, so that a diverged model shows
        ctx.save_for_backward(code)
        ctx.geometry, ctx.shape = geometry, images.shape
        return best.clone() if not others else best

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        (code,), geometry = ctx.saved_tensors, ctx.geometry
        gradient = geometry.padded(upstream.new_zeros(ctx.shape), 0.0)
        for tap, part in enumerate(geometry.seen(gradient)):
            part += upstream * (code == tap)
        return geometry.inside(gradient), None
