"""A Triton kernel that unfolds images for convolutions as matrix products (NVIDIA GPUs, float32).

Sizes are run-time numbers: one compilation serves every layer. The margins are never written to memory.
"""

# The kernels below are in Triton's language, which only borrows Python's syntax.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
_SIZES = ["taps", "height", "width", "rows", "columns", "batch", "down", "across", "top", "left", "kernel_width"]


@triton.jit(do_not_specialize=_SIZES)
def _unfold(
    images, out, taps, height, width, rows, columns, batch, down, across, top, left, kernel_width, BLOCK: tl.constexpr
):
    """What one tap sees of one channel of one model, at BLOCK of (positions × samples)."""
    program = tl.program_id(0).to(tl.int64)
    tap = (program % taps).to(tl.int32)
    element = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = element < rows * columns * batch
    position = element // batch
    y = position // columns * down + tap // kernel_width - top
    x = position % columns * across + tap % kernel_width - left
    real = inside & (y >= 0) & (y < height) & (x >= 0) & (x < width)
    at = program // taps * height * width * batch + (y * width + x) * batch + element % batch
    values = tl.load(images + at, mask=real, other=0.0)
    tl.store(out + program * rows * columns * batch + element, values, mask=inside)


def unfold(
    images: Tensor,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    margins: tuple[int, int],
    positions: tuple[int, int],
) -> Tensor:
    """(M, C, H, W, B) to (M, C·taps, positions·B); `margins` are the padding above and to the left."""
    images = images.contiguous()
    stacks, channels, height, width, batch = images.shape
    taps, size = kernel[0] * kernel[1], positions[0] * positions[1] * batch
    out = images.new_empty(stacks, channels * taps, size)
    _unfold[(stacks * channels * taps, triton.cdiv(size, BLOCK))](
        images, out, taps, height, width, *positions, batch, *stride, *margins, kernel[1], BLOCK=BLOCK
    )
    return out
