"""Triton kernels where a network meets its samples, for N models at once: inputs gathered, targets turned into losses.

Batches are (M, B) numbers of samples; model n has batch n mod M.
"""

# The kernels below are in Triton's language, which only borrows Python's syntax.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit(do_not_specialize_on_alignment=["samples"])
def _gather(rows, samples, out, batch, FEATURES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """out[m, :, b] = rows[samples[m, b], :]: the samples of M batches, batch innermost."""
    blocks = tl.cdiv(batch, ROWS)
    stack = (tl.program_id(0) // blocks).to(tl.int64)
    sample = tl.program_id(0) % blocks * ROWS + tl.arange(0, ROWS)
    feature = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.load(samples + stack * batch + sample, mask=sample < batch, other=0)
    inside = (sample < batch)[:, None] & (feature < FEATURES)[None, :]
    values = tl.load(rows + row[:, None] * FEATURES + feature[None, :], mask=inside)
    to = out + stack * FEATURES * batch + feature[:, None] * batch + sample[None, :]
    tl.store(to, tl.trans(values), mask=tl.trans(inside))


@triton.jit(do_not_specialize=["stacks", "batch"], do_not_specialize_on_alignment=["samples", "weights"])
def _cross_entropy(
    logits, targets, samples, weights, gradient, losses, stacks, batch,
    CLASSES: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One model: Σ_j w_j ℓ(z_j), and its gradient with respect to the logits (CLASSES, batch)."""
    model = tl.program_id(0).to(tl.int64)
    own = (model % stacks) * batch
    label = tl.arange(0, PADDED)[:, None]
    loss = tl.zeros((BLOCK,), tl.float32)
    start = 0
    while start < batch:
        sample = start + tl.arange(0, BLOCK)
        inside = sample < batch
        target = tl.load(targets + tl.load(samples + own + sample, mask=inside, other=0))[None, :]
        weight = tl.load(weights + own + sample, mask=inside, other=0.0)
        at = model * CLASSES * batch + label * batch + sample[None, :]
        valid = (label < CLASSES) & inside[None, :]
        values = tl.load(logits + at, mask=valid, other=float("-inf"))
        values = tl.where(inside[None, :], values, 0.0)
        values -= tl.max(values, 0)[None, :]
        exponentials = tl.exp(values)
        total = tl.sum(exponentials, 0)
        chosen = label == target
        loss += weight * (tl.log(total) - tl.sum(tl.where(chosen, values, 0.0), 0))
        slope = exponentials / total[None, :] - tl.where(chosen, 1.0, 0.0)
        tl.store(gradient + at, weight[None, :] * slope, mask=valid)
        start += BLOCK
    tl.store(losses + model, tl.sum(loss, 0))


def gather(rows: Tensor, samples: Tensor) -> Tensor:
    """The rows named by `samples` (M, B), as (M, *shape, B)."""
    stacks, batch = samples.shape
    features = rows[0].numel()
    out = rows.new_empty(stacks, *rows.shape[1:], batch)
    grid = (stacks * triton.cdiv(batch, 32), triton.cdiv(features, 64))
    _gather[grid](rows.contiguous(), samples.contiguous(), out, batch, FEATURES=features, ROWS=32, COLUMNS=64)
    return out


def cross_entropy(logits: Tensor, targets: Tensor, samples: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Weighted losses (N,) and their gradient with respect to the logits (N, classes, B); targets of all samples."""
    models, classes, batch = logits.shape
    gradient = torch.empty_like(logits)
    losses = logits.new_empty(models)
    padded = triton.next_power_of_2(classes)
    block = min(triton.next_power_of_2(batch), max(16, 2048 // padded))
    _cross_entropy[(models,)](
        logits, targets, samples.contiguous(), weights.contiguous(), gradient, losses, len(samples), batch,
        CLASSES=classes, PADDED=padded, BLOCK=block,
    )  # fmt: skip
    return losses, gradient
