"""When a device's memory is full: told from other errors, tried again after room was made, and said in words."""

from collections.abc import Callable
from typing import TypeVar

import torch

from fedamd.errors import FedamdError

T = TypeVar("T")
_WORDS = ("CUDA error: out of memory", "can't allocate memory")


class NoRoom(FedamdError):
    """The device has no memory for something, with all room made that can be."""


def is_full(error: Exception) -> bool:
    """Whether the device had no memory left; CUDA graphs and CPUs say so with errors of another type than PyTorch's."""
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)
    )


def with_room(compute: Callable[[], T], make_room: Callable[[], None], runs: int) -> T:
    """What `compute` gives; where the device is full, once more after `make_room`, and then no more."""
    try:
        return compute()
    except RuntimeError as error:
        if not is_full(error):
            raise
    make_room()  # outside of the handler, whose traceback keeps what the failed attempt had taken
    try:
        return compute()
    except RuntimeError as error:
        if not is_full(error):
            raise
        fewer = f"; {runs} runs share it: take fewer at a time" if runs > 1 else ""
        raise NoRoom(f"the device has no memory for what clients hold and are sent{fewer} ({error})") from error
