"""Products of stacks of matrices whose bits do not depend on how many there are.

The library's product is several times faster than a kernel of one's own, but may choose how it sums by the size of the
whole stack. So it is asked: for each shape of the factors, whether a matrix comes out the same in stacks of all the
sizes that it will be called with. Where one differs, the kernel of `triton_product` serves that shape instead.
"""

import math
from functools import cache

import torch
from torch import Tensor

from fedamd.oracles.stacked.kernels import has_kernels

LARGEST = 1024  # longer stacks are taken in parts
MOST_NUMBERS = 1 << 20  # of one model's factors: trying takes LARGEST times as many


def ladder() -> list[int]:
    """The sizes of stacks the library is called with: 1, 2, …, 8, 10, 12, 14, 16, 20, … as engines round them up."""
    return [size for size in range(1, LARGEST + 1) if size % (1 << max(0, size.bit_length() - 3)) == 0]


def product(a: Tensor, b: Tensor, out: Tensor | None = None, start: Tensor | None = None) -> Tensor:
    """a·b for stacks of matrices (N, ·, ·), plus `start` (N, rows, 1)."""
    if not has_kernels(a):
        return torch.bmm(a, b, out=out) if start is None else torch.baddbmm(start, a, b)
    if not _library_keeps_bits(a.shape[1:], a.stride()[1:], b.shape[1:], b.stride()[1:], a.device, _tf32()):
        from fedamd.oracles.stacked import triton_product

        return triton_product.product(a, b, out, start=None if start is None else start.squeeze(2), tf32=_tf32())
    out = a.new_empty(len(a), a.shape[1], b.shape[2]) if out is None else out
    for first, last in parts(len(a)):
        torch.bmm(a[first:last], b[first:last], out=out[first:last])
    return out if start is None else out.add_(start)


def weight_gradient(upstream: Tensor, inputs: Tensor, weight: Tensor, bias: Tensor) -> None:
    """Fill weight (N, outputs, inputs) with upstream·inputsᵀ and bias (N, outputs, 1) with upstream's sums."""
    product(upstream, inputs.transpose(1, 2), weight)
    if has_kernels(upstream):
        from fedamd.oracles.stacked import triton_product

        triton_product.row_sums(upstream.contiguous(), bias.squeeze(2))
    else:
        torch.sum(upstream, 2, keepdim=True, out=bias)


def parts(models: int) -> list[tuple[int, int]]:
    """Bounds of parts whose sizes are on the ladder: one where the engine rounded up."""
    bounds, first = [], 0
    while first < models:
        rest = min(models - first, LARGEST)
        step = 1 << max(0, rest.bit_length() - 3)
        bounds.append((first, first + rest // step * step))
        first = bounds[-1][1]
    return bounds


def _tf32() -> bool:
    return bool(torch.backends.cuda.matmul.allow_tf32)


Sizes = tuple[int, ...]


@cache
def _library_keeps_bits(
    a_shape: Sizes,
    a_stride: Sizes,
    b_shape: Sizes,
    b_stride: Sizes,
    device: torch.device,
    tf32: bool,  # noqa: ARG001  part of the question
) -> bool:
    """Whether the first matrix of a stack comes out the same from all sizes of stacks."""
    if math.prod(a_shape) + math.prod(b_shape) > MOST_NUMBERS or torch.cuda.is_current_stream_capturing():
        return False  # it cannot be tried: what was asked before a capture is remembered
    random = torch.Generator(device).manual_seed(0)

    def stack(shape: Sizes, stride: Sizes) -> Tensor:
        across = stride[0] == 1 and stride[1] != 1
        values = torch.randn(LARGEST, *(reversed(shape) if across else shape), device=device, generator=random)
        return values.transpose(1, 2) if across else values

    a, b = stack(a_shape, a_stride), stack(b_shape, b_stride)
    alone = torch.bmm(a[:1], b[:1])
    return all(torch.equal(torch.bmm(a[:size], b[:size])[:1], alone) for size in ladder())
