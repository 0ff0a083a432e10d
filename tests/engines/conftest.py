"""Problems whose clients own unequal numbers of samples."""

import pytest
import torch

from fedamd.data.base import Dataset, Partition

SIZES = (1, 4, 7, 2, 5)


@pytest.fixture(scope="session")
def labelled() -> Dataset:
    """Five clients with 1 to 7 labelled points in three dimensions each, in float64."""
    random = torch.Generator().manual_seed(5)
    inputs = torch.randn(sum(SIZES), 3, generator=random, dtype=torch.float64)
    targets = torch.randint(2, (sum(SIZES),), generator=random)
    owned = torch.randperm(sum(SIZES), generator=random).split(SIZES)
    return Dataset("labelled", inputs, targets, inputs, targets, classes=2, clients=Partition.of(owned))
