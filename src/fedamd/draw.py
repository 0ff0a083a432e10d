"""Randomness that is addressed, not consumed.

Every draw is a function of (seed, purpose, round, client, …) through the SplitMix64 mixer (Steele, Lea & Flood, "Fast
splittable pseudorandom number generators", OOPSLA 2014). The same address gives the same bits in plain Python, in a
tensor on a CPU and in a tensor on a GPU, so every engine draws the same cohorts, coins and batches, a resumed run
continues exactly, and nothing about a generator has to be saved.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import lru_cache

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from fedamd.transfer import upload
from fedamd.triton_here import begin, has_triton

_WORD = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27, 31)
_LAST = torch.iinfo(torch.int64).max

Smallest = Callable[[Tensor, Sequence[int], int], Tensor]


class Purpose(IntEnum):
    """What a draw is for: equal addresses of different purposes are independent."""

    MODEL = 1
    COHORT = 2
    COIN = 3
    BATCH = 4
    FAILURE = 5
    NOISE = 6
    CHOICE = 7
    SAMPLE = 8
    AVAILABILITY = 20
    DEVICE = 21
    HOLD_OUT = 22


def _mix(z: int) -> int:
    z = (z + _STEP) & _WORD
    for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=False):
        z = ((z ^ (z >> shift)) * multiplier) & _WORD
    return z ^ (z >> _SHIFTS[2])


def _signed(z: int) -> int:
    return z - (1 << 64) if z >> 63 else z


def _mixed(z: Tensor) -> Tensor:
    """`_mix` of every element, in place of it.

    int64 arithmetic wraps round as that of 64-bit words does; a shift must be made logical by a mask.
    """
    if z.is_cuda and has_triton() and not is_functorch_wrapped_tensor(z):  # inside vmap there is no memory to point at
        from fedamd import triton_draw

        begin(z.device).kernel.exception()  # next, a CUDA graph may be recorded: nothing may be under way then
        return triton_draw.mixed(z)
    z += _signed(_STEP)
    for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=False):
        z ^= (z >> shift).bitwise_and_(_WORD >> shift)
        z *= _signed(multiplier)
    z ^= (z >> _SHIFTS[2]).bitwise_and_(_WORD >> _SHIFTS[2])
    return z


def bits(seed: int, purpose: Purpose, *address: int) -> int:
    """The 64 bits at an address."""
    *beginning, last = purpose, *address
    return _mix(_beginning(seed, *beginning) ^ (last & _WORD))


@lru_cache(maxsize=1 << 12)  # all that is drawn in a round has most of its address in common
def _beginning(seed: int, *address: int) -> int:
    word = _mix(seed & _WORD)
    for part in address:
        word = _mix(word ^ (part & _WORD))
    return word


def words(beginnings: Sequence[int], device: torch.device) -> Tensor:
    """Addresses that begin with these `bits`, as a tensor for `keys` to continue."""
    return upload([_signed(word) for word in beginnings], device)


def keys(beginnings: Tensor, *address: Tensor | int) -> Tensor:
    """`bits` continued over tensors: int64 tensors (or numbers) that broadcast against one another."""
    for part in address:
        beginnings = _mixed(beginnings ^ part)
    return beginnings


@lru_cache(maxsize=1 << 16)  # runs of a sweep that share a seed ask for the same draws
def uniform(seed: int, purpose: Purpose, *address: int) -> float:
    """A number in [0, 1)."""
    return (bits(seed, purpose, *address) >> 11) * 2.0**-53


def uniforms(rows: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """`count` numbers in [0, 1) for every key of `rows`; 24 random bits each, which float32 holds exactly."""
    words = _mixed(rows.unsqueeze(-1) ^ torch.arange(count, device=rows.device))
    return ((words >> 40) & (_WORD >> 40)).to(dtype) * 2.0**-24


@lru_cache(maxsize=1 << 10)
def sample(population: int, count: int, seed: int, purpose: Purpose, *address: int) -> tuple[int, ...]:
    """`count` of range(population), uniformly and without replacement, in increasing order.

    Floyd's algorithm: time and memory depend on `count` alone, so a cohort of a million clients costs what a cohort of
    a hundred does.
    """
    chosen: set[int] = set()
    word = bits(seed, purpose, *address)
    for bound in range(population - count, population):
        # 64 random bits against a bound far below 2^32: the modulo's bias is under 2^-32.
        candidate = _mix(word ^ bound) % (bound + 1)
        chosen.add(bound if candidate in chosen else candidate)
    return tuple(sorted(chosen))


def smallest(rows: Tensor, sizes: Sequence[int], width: int) -> Tensor:
    """For every key, the `width` positions of 0 … size − 1 with the smallest scores; −1 where there are no more."""
    column = torch.arange(max(sizes), device=rows.device)
    owned = upload(sizes, rows.device).unsqueeze(-1)
    # the low bits of a score carry the position: no ties, no second look-up
    low = upload([(1 << size.bit_length()) - 1 for size in sizes], rows.device).unsqueeze(-1)
    scores = (_mixed(rows.unsqueeze(-1) ^ column) & (_LAST ^ low)) | column
    scores = torch.where(owned > width, scores, column)
    scores.masked_fill_(column >= owned, _LAST)
    chosen = scores.topk(width, dim=-1, largest=False, sorted=True).values
    return torch.where(chosen == _LAST, -1, chosen & low)


def positions(
    rows: Tensor, sizes: Sequence[int], count: int | None, smallest: Smallest = smallest
) -> tuple[Tensor, Tensor]:
    """For every key, a batch of `count` of the numbers 0 … size − 1 without replacement (`None`: all of them).

    Returns positions (R, B) and whether each is a real one (R, B): rows of smaller size are padded with position 0.
    The batch is the `count` positions with the smallest random scores, or all there are in order: it depends on its own
    key and size alone, not on device, engine or the other rows. An engine may have a faster way to find the `smallest`.
    """
    largest = max(sizes)
    width = largest if count is None else min(count, largest)
    if min(sizes) == largest and width == largest:
        whole = torch.arange(largest, device=rows.device).expand(len(sizes), largest)
        return whole, torch.ones_like(whole, dtype=torch.bool)
    chosen = smallest(rows, sizes, width)
    if min(sizes) >= width:
        return chosen, torch.ones_like(chosen, dtype=torch.bool)
    real = chosen >= 0
    return torch.where(real, chosen, 0), real
