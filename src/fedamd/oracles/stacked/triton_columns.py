"""Triton kernels of windows that slide over images (NVIDIA GPUs, float32): convolution as matrix product, max-pooling.

Images are (M, C, H, W, B). A program works out where its BLOCK of numbers of one model lie, once, and then goes through
the taps of the window. Sizes are run-time numbers: one compilation serves every layer. Margins are never written to
memory, and what comes back to a pixel is gathered window by window, in one order. Within a model 32 bits count.
"""

# The kernels below are in Triton's language, which only borrows Python's syntax.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from fedamd.oracles.stacked.convolution import Geometry

BLOCK = 512

_SIZES = ["channels", "batch", "height", "width", "rows", "columns", "taps_down", "taps_across", "top", "left"]
_kernel = triton.jit(do_not_specialize=[*_SIZES, "down", "across"])


@triton.jit
def _placed(channels, height, width, batch, BLOCK: tl.constexpr):
    """The program's model, and of its numbers: whether they are any, their channel, row, column and sample."""
    element = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pixel = element // batch
    line = pixel // width
    channel = line // height
    model = tl.program_id(1).to(tl.int64)
    return model, channel < channels, channel, line - channel * height, pixel - line * width, element - pixel * batch


@_kernel
def _unfold(
    images, out, channels, batch,
    height, width, rows, columns, taps_down, taps_across, down, across, top, left, BLOCK: tl.constexpr,
):  # fmt: skip
    """What every tap sees at each position."""
    model, inside, channel, row, column, sample = _placed(channels, rows, columns, batch, BLOCK)
    y, x = row * down - top, column * across - left
    size = rows * columns * batch
    images += model * channels * height * width * batch
    out += model * channels * taps_down * taps_across * size
    source = ((channel * height + y) * width + x) * batch + sample
    target = channel * taps_down * taps_across * size + (row * columns + column) * batch + sample
    for i in range(taps_down):
        seen = inside & (y + i >= 0) & (y + i < height)
        for j in range(taps_across):
            real = seen & (x + j >= 0) & (x + j < width)
            values = tl.load(images + (source + (i * width + j) * batch), mask=real, other=0.0)
            tl.store(out + (target + (i * taps_across + j) * size), values, mask=inside)


@triton.jit
def _add_three(
    total, parts, source, reached, row, last_column, back, i, x, columns, taps_across, across, batch, size
):  # fmt: skip
    """What three windows next to each other brought back, in loads that are on their way together."""
    for further in tl.static_range(3):
        column = last_column - (back + further)
        j = x - column * across
        real = reached & (j < taps_across) & (column >= 0) & (column < columns)
        position = (row * columns + column) * batch
        total += tl.load(parts + (source + (i * taps_across + j) * size + position), mask=real, other=0.0)
    return total


@triton.jit(do_not_specialize=[*_SIZES, "starts"])  # windows at every pixel are worth a compilation of their own
def _fold(
    parts, start, out, starts, channels, batch,
    height, width, rows, columns, taps_down, taps_across, down, across, top, left, BLOCK: tl.constexpr,
):  # fmt: skip
    """The transpose of `_unfold`, on top of `start` if it `starts`: to every pixel what the taps brought it to."""
    model, inside, channel, y, x, sample = _placed(channels, height, width, batch, BLOCK)
    size = rows * columns * batch
    at = model * channels * height * width * batch
    parts += model * channels * taps_down * taps_across * size
    to = ((channel * height + y) * width + x) * batch + sample
    total = tl.load(start + at + to, mask=inside & (starts != 0), other=0.0)
    source = channel * taps_down * taps_across * size + sample
    last_row, last_column = (y + top) // down, (x + left) // across
    for up in range(tl.cdiv(taps_down, down)):
        row = last_row - up
        i = y + top - row * down
        reached = inside & (i < taps_down) & (row >= 0) & (row < rows)
        for back in range(0, tl.cdiv(taps_across, across), 3):
            total = _add_three(
                total, parts, source, reached, row, last_column, back, i, x + left,
                columns, taps_across, across, batch, size,
            )  # fmt: skip
    tl.store(out + at + to, total, mask=inside)


@_kernel
def _largest(
    images, out, code, channels, batch,
    height, width, rows, columns, taps_down, taps_across, down, across, top, left, BLOCK: tl.constexpr,
):  # fmt: skip
    """The maximum at every position, and the first tap that saw it; what is no number passes."""
    model, inside, channel, row, column, sample = _placed(channels, rows, columns, batch, BLOCK)
    y, x = row * down - top, column * across - left
    images += model * channels * height * width * batch
    source = ((channel * height + y) * width + x) * batch + sample
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    tap = tl.zeros((BLOCK,), tl.int32)
    for i in range(taps_down):
        seen = inside & (y + i >= 0) & (y + i < height)
        for j in range(taps_across):
            real = seen & (x + j >= 0) & (x + j < width)
            values = tl.load(images + (source + (i * width + j) * batch), mask=real, other=float("-inf"))
            better = (values > best) | (values != values)
            best = tl.where(better, values, best)
            tap = tl.where(better, i * taps_across + j, tap)
    at = model * channels * rows * columns * batch
    to = ((channel * rows + row) * columns + column) * batch + sample
    tl.store(out + at + to, best, mask=inside)
    tl.store(code + at + to, tap.to(tl.uint8), mask=inside)


@_kernel
def _largest_back(
    upstream, code, out, channels, batch,
    height, width, rows, columns, taps_down, taps_across, down, across, top, left, BLOCK: tl.constexpr,
):  # fmt: skip
    """To every pixel the gradients of the windows whose maximum it was."""
    model, inside, channel, y, x, sample = _placed(channels, height, width, batch, BLOCK)
    upstream += model * channels * rows * columns * batch
    code += model * channels * rows * columns * batch
    total = tl.zeros((BLOCK,), tl.float32)
    last_row, last_column = (y + top) // down, (x + left) // across
    for up in range(tl.cdiv(taps_down, down)):
        row = last_row - up
        i = y + top - row * down
        reached = inside & (i < taps_down) & (row >= 0) & (row < rows)
        for back in range(tl.cdiv(taps_across, across)):
            column = last_column - back
            j = x + left - column * across
            real = reached & (j < taps_across) & (column >= 0) & (column < columns)
            at = ((channel * rows + row) * columns + column) * batch + sample
            mine = real & (tl.load(code + at, mask=real, other=0) == i * taps_across + j)
            total += tl.load(upstream + at, mask=mine, other=0.0)
    to = ((channel * height + y) * width + x) * batch + sample
    tl.store(out + model * channels * height * width * batch + to, total, mask=inside)


def _grid(models: int, image: tuple[int, int, int], batch: int) -> tuple[int, int]:
    return int(triton.cdiv(math.prod(image) * batch, BLOCK)), models


def unfold(images: Tensor, geometry: Geometry) -> Tensor:
    """(M, C, H, W, B) to (M, C·taps, positions·B)."""
    models, channels, *_, batch = images.shape
    _, rows, columns = geometry.outputs
    out = images.new_empty(models, channels * math.prod(geometry.live_kernel), rows * columns * batch)
    _unfold[_grid(models, (channels, rows, columns), batch)](
        images.contiguous(), out, channels, batch, *geometry.windows, BLOCK=BLOCK
    )
    return out


def fold(columns: Tensor, geometry: Geometry, batch: int, start: Tensor | None = None) -> Tensor:
    """(M, C·taps, positions·B) to (M, C, H, W, B), plus `start`."""
    out = columns.new_empty(len(columns), *geometry.inputs, batch)
    _fold[_grid(len(columns), geometry.inputs, batch)](
        columns.contiguous(), out if start is None else start.contiguous(), out, int(start is not None),
        geometry.inputs[0], batch, *geometry.windows, BLOCK=BLOCK,
    )  # fmt: skip
    return out


def largest(images: Tensor, geometry: Geometry) -> tuple[Tensor, Tensor]:
    """Maxima (M, C, H', W', B), and bytes that say which tap saw each."""
    models, channels, *_, batch = images.shape
    out = images.new_empty(models, *geometry.outputs, batch)
    code = torch.empty_like(out, dtype=torch.uint8)
    _largest[_grid(models, geometry.outputs, batch)](
        images.contiguous(), out, code, channels, batch, *geometry.windows, BLOCK=BLOCK
    )
    return out, code


def largest_back(upstream: Tensor, code: Tensor, geometry: Geometry) -> Tensor:
    """The gradient with respect to images (M, C, H, W, B)."""
    models, channels, *_, batch = upstream.shape
    out = upstream.new_empty(models, *geometry.inputs, batch)
    _largest_back[_grid(models, geometry.inputs, batch)](
        upstream.contiguous(), code, out, channels, batch, *geometry.windows, BLOCK=BLOCK
    )
    return out
