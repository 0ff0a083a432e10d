"""A Triton kernel of matrix products for N models at once (NVIDIA GPUs, float32), each summed up the same in any stack.

Libraries choose how to split a sum by the size of the whole stack, so that a model's last bits depend on how many
others are in the call. Here the tiles are chosen by the shape of one product alone, and its sum runs along the inner
axis.
"""

# The kernels below are in Triton's language, which only borrows Python's syntax.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import math

import triton
import triton.language as tl
from torch import Tensor


def _product(
    a, b, c, start, sums, gate, rows, columns, inner, a0, a1, a2, b0, b1, b2, c0, c1, s0, least, gated,
    STARTS: tl.constexpr, SUMS: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """One tile of c = a·b, from `start` (a number for each row) on if asked, and the sums of a's rows if asked.

    Without sums, c is at `least` so much everywhere, and zero where a gate of c's layout, if any, is not positive.
    """
    model = tl.program_id(1).to(tl.int64)
    across = tl.cdiv(columns, COLUMNS)
    row = tl.program_id(0) // across * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS)
    step = tl.arange(0, INNER)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    summed = tl.zeros((ROWS, INNER), tl.float32)
    left = a + model * a0 + row[:, None] * a1
    right = b + model * b0 + column[None, :] * b2
    for first in range(0, inner, INNER):
        k = first + step
        x = tl.load(left + k[None, :] * a2, mask=(row < rows)[:, None] & (k < inner)[None, :], other=0.0)
        y = tl.load(right + k[:, None] * b1, mask=(k < inner)[:, None] & (column < columns)[None, :], other=0.0)
        total = tl.dot(x, y, total, input_precision=PRECISION)
        if SUMS:
            summed += x
    if STARTS:
        total += tl.load(start + model * s0 + row, mask=row < rows, other=0.0)[:, None]
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    at = model * c0 + row[:, None] * c1 + column[None, :]
    if not SUMS:
        total = tl.maximum(total, least, propagate_nan=tl.PropagateNan.ALL)  # so that a diverged model shows
        total = tl.where(tl.load(gate + at, mask=inside & (gated != 0), other=1.0) <= 0, 0.0, total)
    tl.store(c + at, total, mask=inside)
    if SUMS:
        tl.store(sums + model * s0 + row, tl.sum(summed, 1), mask=(row < rows) & (tl.program_id(0) % across == 0))


# A kernel that knows a stride or a length to be a multiple of 16 reads several numbers at once, and one is compiled for
# what is a multiple and what is not. Worth it along the batch alone: models' weights lie any distance apart.
_product_with_weights = triton.jit(  # a has the weights, b's columns are the batch
    do_not_specialize=["rows", "inner", "a0", "s0", "gated"],
    do_not_specialize_on_alignment=["a", "start", "sums", "a1", "a2"],
)(_product)
_product_over_batch = triton.jit(  # the batch is the inner axis of both, c has the weights
    do_not_specialize=["rows", "columns", "c0", "c1", "s0", "gated"],
    do_not_specialize_on_alignment=["c", "start", "sums", "gate"],
)(_product)


# Tiles so small that the products of some twenty models occupy a GPU, and large enough for those of a thousand. The
# larger INNER is, the more instructions there are to be compiled, and fetched. Found by trial on an H200.
ROWS, COLUMNS, INNER = 32, 64, 16


def _tile(size: int, most: int) -> int:
    return min(most, max(16, int(triton.next_power_of_2(size))))


def product(
    a: Tensor,
    b: Tensor,
    out: Tensor | None = None,
    *,
    start: Tensor | None = None,
    sums: Tensor | None = None,
    rectified: bool = False,
    gate: Tensor | None = None,
    tf32: bool = False,
) -> Tensor:
    """a·b for (N, rows, inner) and (N, inner, columns), strided in any way; `out` has its columns side by side.

    `start` (N, rows) is added to every column; the sums of a's rows are put into `sums` (N, rows). The product is then
    `rectified`, or made zero where `gate`, contiguous like it, is not positive: ReLU, and back through it.
    """
    (models, rows, inner), columns = a.shape, b.shape[2]
    out = a.new_empty(models, rows, columns) if out is None else out
    extra = start if start is not None else sums
    height, width = _tile(rows, ROWS), _tile(columns, COLUMNS)
    grid = (triton.cdiv(rows, height) * triton.cdiv(columns, width), models)
    # over the batch, a warp's reads of shared memory collide: one warp with the whole tile has the fewest of them
    kernel, warps, stages = (_product_over_batch, 1, 3) if b.stride(1) == 1 else (_product_with_weights, 4, 4)
    kernel[grid](
        a, b, out, *(out if given is None else given for given in (start, sums, gate)),
        rows, columns, inner, *a.stride(), *b.stride(), *out.stride()[:2], 0 if extra is None else extra.stride(0),
        0.0 if rectified else -math.inf, int(gate is not None),
        STARTS=start is not None, SUMS=sums is not None, PRECISION="tf32" if tf32 else "ieee",
        ROWS=height, COLUMNS=width, INNER=INNER, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out
