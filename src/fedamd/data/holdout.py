"""Holds test samples out of training data; which ones is an addressed draw: a function of the seed and the sample."""

import numpy as np
import torch
from numpy.typing import NDArray

from fedamd import draw
from fedamd.draw import Purpose
from fedamd.errors import FedamdError

_HOLD_OUT = -2  # stands where other draws have their round, which is never negative


def held_out(owners: NDArray[np.int64], share: float, seed: int, what: str) -> NDArray[np.bool_]:
    """Which samples are held out: of each owner's the given share, rounded, but never all of them."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise FedamdError(f"{what}: test_share must be above 0 and below 1; got {share!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise FedamdError(f"{what}: test_seed is a whole number, zero or more; got {seed!r}")
    word = draw.words([draw.bits(seed, Purpose.CHOICE, _HOLD_OUT)], torch.device("cpu"))
    scores = draw.keys(word, torch.arange(len(owners))).numpy()
    by_owner = np.lexsort((scores, owners))
    _, starts, counts = np.unique(owners[by_owner], return_index=True, return_counts=True)
    rank = np.arange(len(owners)) - np.repeat(starts, counts)
    taken = np.minimum(np.floor(share * counts + 0.5), counts - 1)
    out = np.zeros(len(owners), dtype=np.bool_)
    out[by_owner] = rank < np.repeat(taken, counts)
    if not out.any():
        raise FedamdError(
            f"{what}: a test_share of {share:g} of {'clients' if len(counts) > 1 else 'data'} with at most "
            f"{counts.max()} samples leaves no test samples; raise it, or give test samples"
        )
    return out
