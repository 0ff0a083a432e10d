"""Products of stacks of matrices whose bits do not depend on how many there are.

On a GPU a library chooses how it sums by the size of the whole stack: cuBLAS gave a matrix other bits alone than in
every larger stack. The kernel of `triton_product` does not, and takes hardly longer for factors as small as these.
"""

from typing import Any

import torch
from torch import Tensor

from fedamd.oracles.stacked.kernels import has_kernels


def product(
    a: Tensor, b: Tensor, start: Tensor | None = None, *, rectified: bool = False, gate: Tensor | None = None
) -> Tensor:
    """a·b for stacks of matrices (N, ·, ·), plus `start` (N, rows, 1): through ReLU, or back through it, if asked.

    Backwards, what comes out is zero where `gate`, the outputs of ReLU, is not positive.
    """
    if has_kernels(a):
        return _by_kernel(a, b, start=None if start is None else start.squeeze(2), rectified=rectified, gate=gate)
    outputs = torch.bmm(a, b) if start is None else torch.baddbmm(start, a, b)
    outputs = outputs.relu_() if rectified else outputs
    return outputs if gate is None else torch.ops.aten.threshold_backward(outputs, gate, 0)


def weight_gradient(upstream: Tensor, inputs: Tensor, weight: Tensor, bias: Tensor) -> None:
    """Fill weight (N, outputs, inputs) with upstream·inputsᵀ and bias (N, outputs, 1) with upstream's sums."""
    if has_kernels(upstream):
        _by_kernel(upstream, inputs.transpose(1, 2), weight, sums=bias.squeeze(2))
    else:
        torch.bmm(upstream, inputs.transpose(1, 2), out=weight)
        torch.sum(upstream, 2, keepdim=True, out=bias)


def _by_kernel(a: Tensor, b: Tensor, out: Tensor | None = None, **more: Any) -> Tensor:
    from fedamd.oracles.stacked import triton_product

    return triton_product.product(a, b, out, tf32=bool(torch.backends.cuda.matmul.allow_tf32), **more)
