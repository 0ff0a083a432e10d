"""Triton kernels of the block convolution + bias + ReLU + 2×2 max-pooling for N models at once (NVIDIA GPUs, float32).

Activations are (N, C, H, W, B), the batch innermost: neighbouring threads work on neighbouring samples, so that every
access is coalesced, and all threads of a warp want the same weight. Small convolutions (few channels) cannot fill
tensor cores; these kernels are direct convolutions in full float32, bound by multiply-adds rather than by memory. A
thread owns one or two samples of one pooled cell, loads the input patch below the cell once, and keeps every partial
sum in registers: a tuple of tensors, since Triton cannot index a tensor. Shapes, the batch size among them, are
compile-time constants: addresses then cost no registers, and each new batch size is compiled once (Triton keeps what it
compiled on disk). How long that takes depends on how many operations loops are unrolled to. So what is unrolled calls
small functions, which are translated once and inlined later, and the forward pass has the four positions of a pooling
window joined in one tensor.
"""

# The kernels below are in Triton's language, which only borrows Python's syntax.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, assignment, var-annotated"
# ruff: noqa: RUF005

import torch
import triton
import triton.language as tl
from torch import Tensor

SHARE = 32  # blocks of (cells × samples) that one program sums up


# Not one compilation for each divisibility of the numbers of models and parameters.
_kernel = triton.jit(
    do_not_specialize=["stacks", "stride", "split_stride"], do_not_specialize_on_alignment=["parameters"]
)


@triton.jit
def _row(patch, inside, STEP: tl.constexpr, COUNT: tl.constexpr):
    """COUNT neighbouring values of a row of the image, each for BLOCK cells."""
    values = ()
    for j in tl.static_range(COUNT):
        values = values + (tl.load(patch + j * STEP, mask=inside, other=0.0),)
    return values


@triton.jit
def _pairs(row):
    """Every value of the row joined with the next."""
    pairs = ()
    for j in tl.static_range(len(row) - 1):
        pairs = pairs + (tl.join(row[j], row[j + 1]),)
    return pairs


@triton.jit
def _add_tap(sums, window, weight, FILTER: tl.constexpr):
    """One tap of every channel's kernel, FILTER weights apart, against what it sees."""
    updated = ()
    for c in tl.static_range(len(sums)):
        updated = updated + (tl.fma(tl.load(weight + c * FILTER), window, sums[c]),)
    return updated


@triton.jit
def _add_row_of_taps(sums, upper, lower, weight, FILTER: tl.constexpr):
    """One row of the kernel against the image's rows under the upper and the lower positions of the window."""
    for j in tl.static_range(len(upper)):
        sums = _add_tap(sums, tl.join(upper[j], lower[j]), weight + j, FILTER)
    return sums


@_kernel
def _forward(
    inputs, parameters, out, code, stacks, stride,
    CIN: tl.constexpr, COUT: tl.constexpr, H: tl.constexpr, W: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    BATCH: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """GROUP channels of BLOCK pooled values; model n reads the inputs of batch n mod `stacks`."""
    PH: tl.constexpr = (H - KH + 1) // 2
    PW: tl.constexpr = (W - KW + 1) // 2
    blocks = tl.cdiv(PH * PW * BATCH, BLOCK)
    model = (tl.program_id(0) // blocks).to(tl.int64)
    element = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside = element < PH * PW * BATCH
    cell = element // BATCH
    patch = inputs + (model % stacks) * (CIN * H * W) * BATCH
    patch += (cell // PW * (2 * W) + cell % PW * 2) * BATCH + element % BATCH
    channel = tl.program_id(1) * GROUP
    weight = parameters + model * stride + channel * (CIN * KH * KW)
    bias = parameters + model * stride + COUT * CIN * KH * KW + channel

    sums = (tl.zeros((BLOCK, 2, 2), tl.float32),) * GROUP  # the last axes: the column and the row in the window
    for _channel in range(CIN):
        upper = _pairs(_row(patch, inside, BATCH, KW + 1))
        for i in tl.static_range(KH):  # a loop would take a seventh longer
            lower = _pairs(_row(patch + (i + 1) * W * BATCH, inside, BATCH, KW + 1))
            sums = _add_row_of_taps(sums, upper, lower, weight + i * KW, CIN * KH * KW)
            upper = lower
        patch += H * W * BATCH
        weight += KH * KW

    for c in tl.static_range(GROUP):
        to = (model * COUT + channel + c) * (PH * PW) * BATCH + element
        _store_pooled(out + to, code + to, sums[c], bias + c, inside)


@triton.jit
def _largest(window):
    """The largest of four values and which it is, the first of equals."""
    best = window[0]
    which = tl.zeros(best.shape, tl.int32)
    for p in tl.static_range(1, 4):
        better = (window[p] > best) | (window[p] != window[p])  # NaN wins, so that a diverged model shows
        best = tl.where(better, window[p], best)
        which = tl.where(better, p, which)
    return best, which


@triton.jit
def _store_pooled(out, code, window, bias, inside):
    """What ReLU and pooling leave of the four sums of BLOCK windows."""
    upper_two, lower_two = tl.split(window)
    best, which = _largest(tl.split(upper_two) + tl.split(lower_two))
    best += tl.load(bias)
    dead = best <= 0
    tl.store(out, tl.where(dead, 0.0, best), mask=inside)
    tl.store(code, tl.where(dead, 4, which).to(tl.uint8), mask=inside)


@triton.jit
def _by_position(g, position):
    """The gradient at each of the four positions of the window: g at one of them, zero at the others."""
    return (
        tl.where(position == 0, g, 0.0),
        tl.where(position == 1, g, 0.0),
        tl.where(position == 2, g, 0.0),
        tl.where(position == 3, g, 0.0),
    )


@triton.jit
def _add_pair_of_taps(total, g, beside, row, j: tl.constexpr, KW: tl.constexpr):
    """With g times the tap j of a row of the kernel and `beside` times the one before it, if the row has them."""
    if j < KW:
        total = tl.fma(tl.load(row + j), g, total)
    if j > 0 and j <= KW:
        total = tl.fma(tl.load(row + (j - 1)), beside, total)
    return total


@triton.jit
def _add_taps(total, gs, weight, i: tl.constexpr, j: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr):
    """What a cell's four positions add to the input that the first of them sees by the tap (i, j)."""
    if i < KH:
        total = _add_pair_of_taps(total, gs[0], gs[1], weight + i * KW, j, KW)
    if i > 0 and i <= KH:
        total = _add_pair_of_taps(total, gs[2], gs[3], weight + (i - 1) * KW, j, KW)
    return total


@triton.jit
def _add_to_square(square, gs, weight, up: tl.constexpr, left: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr):
    """What the cell `up` above and `left` of a square of inputs adds to its four positions, from its own four."""
    return (
        _add_taps(square[0], gs, weight, 2 * up, 2 * left, KH, KW),
        _add_taps(square[1], gs, weight, 2 * up, 2 * left + 1, KH, KW),
        _add_taps(square[2], gs, weight, 2 * up + 1, 2 * left, KH, KW),
        _add_taps(square[3], gs, weight, 2 * up + 1, 2 * left + 1, KH, KW),
    )


@triton.jit
def _add_cell(
    sums, upstream, code, inside, weight, up: tl.constexpr, left: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr
):  # fmt: skip
    """What one output channel of a cell adds to the squares of all input channels."""
    g = tl.load(upstream, mask=inside, other=0.0)
    gs = _by_position(g, tl.load(code, mask=inside, other=4))
    updated = ()
    for c in tl.static_range(len(sums) // 4):
        updated = updated + _add_to_square(sums[4 * c : 4 * c + 4], gs, weight + c * (KH * KW), up, left, KH, KW)
    return updated


@_kernel
def _input_gradient(
    parameters, upstream, code, out, stride,
    CIN: tl.constexpr, COUT: tl.constexpr, H: tl.constexpr, W: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    BATCH: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """GROUP input channels at a 2×2 square of positions, for BLOCK samples.

    The square (2r…2r+1, 2s…2s+1) gets gradient from the pooled cells (r − KH/2 … r, s − KW/2 … s) that exist; each
    cell has it at one of its four positions, which decides the tap.
    """
    PH: tl.constexpr = (H - KH + 1) // 2
    PW: tl.constexpr = (W - KW + 1) // 2
    SQUARES: tl.constexpr = (W + 1) // 2
    blocks = tl.cdiv(BATCH, BLOCK)
    model = (tl.program_id(0) // blocks).to(tl.int64)
    sample = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside = sample < BATCH
    r = tl.program_id(1) // SQUARES
    s = tl.program_id(1) % SQUARES
    channel = tl.program_id(2) * GROUP
    weights = parameters + model * stride + channel * (KH * KW)
    pooled = model * (COUT * PH * PW) * BATCH + sample

    sums = (tl.zeros((BLOCK,), tl.float32),) * (4 * GROUP)  # for every channel, the four positions of the square
    for up in tl.static_range(KH // 2 + 1):
        for left in tl.static_range(KW // 2 + 1):
            if (r >= up) & (r - up < PH) & (s >= left) & (s - left < PW):
                cell = pooled + ((r - up) * PW + (s - left)) * BATCH
                weight = weights
                for _channel in range(COUT):
                    sums = _add_cell(sums, upstream + cell, code + cell, inside, weight, up, left, KH, KW)
                    cell += PH * PW * BATCH
                    weight += CIN * KH * KW

    for c in tl.static_range(GROUP):
        for q in tl.static_range(4):
            y = 2 * r + q // 2
            x = 2 * s + q % 2
            to = (((model * CIN + channel + c) * H + y) * W + x) * BATCH + sample
            tl.store(out + to, sums[4 * c + q], mask=inside & (y < H) & (x < W))


@triton.jit
def _add_to_row_of_taps(sums, upper, lower, gs):
    """What BLOCK cells add to a row of taps: each of the four positions has a tap see another input."""
    updated = ()
    for j in tl.static_range(len(sums)):
        total = tl.fma(upper[j], gs[0], sums[j])
        total = tl.fma(upper[j + 1], gs[1], total)
        total = tl.fma(lower[j], gs[2], total)
        updated = updated + (tl.fma(lower[j + 1], gs[3], total),)
    return updated


@triton.jit
def _add_to_taps(sums, patch, upstream, code, inside, KH: tl.constexpr, KW: tl.constexpr):
    """What BLOCK cells add to one channel's taps, row by row, and to its bias."""
    g = tl.load(upstream, mask=inside, other=0.0)
    position = tl.load(code, mask=inside, other=4)
    gs = _by_position(g, position)
    updated = ()
    for i in tl.static_range(KH):
        upper = patch[i * (KW + 1) : (i + 1) * (KW + 1)]
        lower = patch[(i + 1) * (KW + 1) : (i + 2) * (KW + 1)]
        updated = updated + _add_to_row_of_taps(sums[i * KW : (i + 1) * KW], upper, lower, gs)
    return updated + (sums[KH * KW] + tl.where(position < 4, g, 0.0),)


@triton.jit
def _store_taps(out, sums):
    for t in tl.static_range(len(sums)):
        tl.store(out + t, tl.sum(sums[t], 0))


@_kernel
def _weight_gradient(
    inputs, upstream, code, out, stacks, split_stride, stride,
    CIN: tl.constexpr, COUT: tl.constexpr, H: tl.constexpr, W: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    BATCH: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """All taps between one input channel and GROUP output channels, summed over a share of (cells × samples)."""
    PH: tl.constexpr = (H - KH + 1) // 2
    PW: tl.constexpr = (W - KW + 1) // 2
    TAPS: tl.constexpr = KH * KW
    elements = PH * PW * BATCH
    model = (tl.program_id(0) // CIN).to(tl.int64)
    channel_in = tl.program_id(0) % CIN
    channel = tl.program_id(1) * GROUP
    split = tl.program_id(2)
    image = inputs + ((model % stacks) * CIN + channel_in) * (H * W) * BATCH
    pooled = (model * COUT + channel) * elements

    sums = (tl.zeros((BLOCK,), tl.float32),) * (GROUP * (TAPS + 1))  # for every channel: its taps, then its bias
    start = split * BLOCK
    while start < elements:
        element = start + tl.arange(0, BLOCK)
        inside = element < elements
        cell = element // BATCH
        corner = image + (cell // PW * (2 * W) + cell % PW * 2) * BATCH + element % BATCH
        patch = ()
        for i in tl.static_range(KH + 1):
            patch = patch + _row(corner + i * W * BATCH, inside, BATCH, KW + 1)
        updated = ()
        for c in tl.static_range(GROUP):
            at = pooled + c * elements + element
            own = sums[c * (TAPS + 1) : (c + 1) * (TAPS + 1)]
            updated = updated + _add_to_taps(own, patch, upstream + at, code + at, inside, KH, KW)
        sums = updated
        start += tl.num_programs(2) * BLOCK

    out += split * split_stride + model * stride
    for c in tl.static_range(GROUP):
        own = sums[c * (TAPS + 1) : (c + 1) * (TAPS + 1)]
        _store_taps(out + ((channel + c) * CIN + channel_in) * TAPS, own[:TAPS])
        bias = tl.sum(own[TAPS], 0)
        tl.store(out + COUT * CIN * TAPS + channel + c, bias, mask=channel_in == 0)


@triton.jit(do_not_specialize=["shares", "split_stride", "stride", "size"])
def _add_shares(parts, out, shares, split_stride, stride, size, BLOCK: tl.constexpr):
    """The shares of one model's sum, added up from first to last."""
    model = tl.program_id(0).to(tl.int64)
    number = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for share in range(shares):
        total += tl.load(parts + share * split_stride + model * size + number, mask=number < size, other=0.0)
    tl.store(out + model * stride + number, total, mask=number < size)


def _largest_divisor(number: int, limit: int) -> int:
    return max(k for k in range(1, max(limit, 1) + 1) if number % k == 0)


def _geometry(channels: tuple[int, int], image: tuple[int, int], kernel: tuple[int, int]) -> dict[str, int]:
    names = ("CIN", "COUT", "H", "W", "KH", "KW")
    return dict(zip(names, (*channels, *image, *kernel), strict=True))


def forward(parameters: Tensor, inputs: Tensor, channels_out: int, kernel: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Pooled outputs (N, C', H', W', B) and, in uint8, the position 0…3 in its window of each (4: ReLU was at zero).

    parameters: (N, weights and bias), rows any distance apart; inputs: (M, C, H, W, B), M a divisor of N.
    """
    inputs = inputs.contiguous()
    stacks, channels_in, height, width, batch = inputs.shape
    models = parameters.shape[0]
    cells = (height - kernel[0] + 1) // 2, (width - kernel[1] + 1) // 2
    out = inputs.new_empty(models, channels_out, *cells, batch)
    code = torch.empty_like(out, dtype=torch.uint8)
    block, group = 256, _largest_divisor(channels_out, 8)
    grid = (models * triton.cdiv(cells[0] * cells[1] * batch, block), channels_out // group)
    _forward[grid](
        inputs, parameters, out, code, stacks, parameters.stride(0),
        **_geometry((channels_in, channels_out), (height, width), kernel),
        BATCH=batch, GROUP=group, BLOCK=block, num_warps=4, maxnreg=128,
    )  # fmt: skip
    return out, code


def input_gradient(
    parameters: Tensor, upstream: Tensor, code: Tensor, shape: tuple[int, int, int], kernel: tuple[int, int]
) -> Tensor:
    """Gradient with respect to inputs of shape (C, H, W): (N, C, H, W, B), from that of the pooled outputs."""
    upstream = upstream.contiguous()
    models, channels_out, *_, batch = upstream.shape
    channels_in, height, width = shape
    out = upstream.new_empty(models, *shape, batch)
    block, group = min(128, max(32, triton.next_power_of_2(batch))), _largest_divisor(channels_in, 4)
    squares = triton.cdiv(height, 2) * triton.cdiv(width, 2)
    grid = (models * triton.cdiv(batch, block), squares, channels_in // group)
    _input_gradient[grid](
        parameters, upstream, code, out, parameters.stride(0),
        **_geometry((channels_in, channels_out), (height, width), kernel),
        BATCH=batch, GROUP=group, BLOCK=block, num_warps=max(1, block // 64),
    )  # fmt: skip
    return out


def weight_gradient(inputs: Tensor, upstream: Tensor, code: Tensor, kernel: tuple[int, int], out: Tensor) -> None:
    """Fill out (N, weights and bias), rows any distance apart, with the gradient summed over the batch."""
    inputs = inputs.contiguous()
    stacks, channels_in, height, width, batch = inputs.shape
    upstream = upstream.contiguous()
    models, channels_out = upstream.shape[:2]
    elements = upstream[0, 0].numel()
    warps = 1 if elements < 4096 else 4
    block = 32 * warps
    group = _largest_divisor(channels_out, 100 // (kernel[0] * kernel[1]))
    registers = 128 if group * kernel[0] * kernel[1] <= 75 else None  # a few spills cost less than idle warps
    # Few models would leave the chip idle, so the sum is split; how finely must not depend on how many they are.
    shares = max(1, elements // (block * SHARE))
    target = out.new_empty(shares, models, out.shape[1]) if shares > 1 else out.unsqueeze(0)
    _weight_gradient[(models * channels_in, channels_out // group, shares)](
        inputs, upstream, code, target, stacks, target.stride(0), target.stride(1),
        **_geometry((channels_in, channels_out), (height, width), kernel),
        BATCH=batch, GROUP=group, BLOCK=block, num_warps=warps, maxnreg=registers,
    )  # fmt: skip
    if shares > 1:
        grid = (models, triton.cdiv(out.shape[1], 256))
        _add_shares[grid](target, out, shares, target.stride(0), out.stride(0), out.shape[1], BLOCK=256)
