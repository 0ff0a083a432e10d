"""Batches drawn by the library, as `fedamd.draw.positions` defines them."""

import ctypes
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from fedamd.oracles.native.library import check, declare, load


def smallest(keys: Tensor, sizes: Sequence[int], width: int) -> Tensor:
    """For every key, the `width` positions of 0 … size − 1 with the smallest scores; −1 where there are no more.

    A score is the key's mix with the position, the position itself in its low bits.
    """
    keys, owned = keys.contiguous(), torch.tensor(sizes)
    positions = keys.new_empty(len(sizes), width)
    check(_library().fedamd_draw(keys.data_ptr(), owned.data_ptr(), len(sizes), width, positions.data_ptr()))
    return positions


@cache
def _library() -> ctypes.CDLL:
    library, pointer, number = load(), ctypes.c_void_p, ctypes.c_int64
    declare(library, "fedamd_draw", pointer, pointer, number, number, pointer)
    return library
