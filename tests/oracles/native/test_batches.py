"""Batches drawn by the native library. `tests/test_draw.py` holds them to their definition on small examples."""

import pytest
import torch

from fedamd import draw
from fedamd.errors import FedamdError
from fedamd.oracles.native.batches import smallest

pytestmark = pytest.mark.usefixtures("library")


@pytest.mark.parametrize(("sizes", "width"), [([600] * 50, 64), ([600, 1, 64, 65, 200], 64), ([1023, 1024], 1024)])
def test_as_without_the_library(sizes, width):
    keys = draw.words([draw.bits(3, draw.Purpose.BATCH, i) for i in range(len(sizes))], torch.device("cpu"))
    assert torch.equal(smallest(keys, sizes, width), draw.smallest(keys, sizes, width))


def test_rows_that_have_too_few_small_scores():
    """One of 50: all scores are above the filter's bound of 9/50 in one row of 20,000 ((1 − 0.18)^50 = 4.9e-5)."""
    count = 200_000
    keys = draw.keys(torch.zeros(count, dtype=torch.int64), torch.arange(count))
    assert torch.equal(smallest(keys, [50] * count, 1), draw.smallest(keys, [50] * count, 1))


def test_keys_that_do_not_lie_side_by_side():
    keys = draw.keys(torch.zeros(10, dtype=torch.int64), torch.arange(10))
    assert torch.equal(smallest(keys[::2], [9] * 5, 4), smallest(keys[::2].clone(), [9] * 5, 4))


def test_a_negative_size_is_refused():
    with pytest.raises(FedamdError, match="a size is negative"):
        smallest(torch.zeros(2, dtype=torch.int64), [3, -1], 2)
