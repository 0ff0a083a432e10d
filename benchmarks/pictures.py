"""The pictures that benchmarks train on: the data set where it is installed, else random tensors of its shape.

As [data] of a config, so that runs share them, and nothing is read or made twice.
"""

from typing import Any

import torch
from torch import Tensor

from fedamd.data import Dataset, where

CLASSES = 10
Section = dict[str, Any]


def fashion_mnist(tiny: bool = False) -> Section:
    """60,000 pictures of 1×28×28; some random ones where tiny is enough."""
    return random_ones(1, 28, 400, 50) if tiny else installed("fashion-mnist") or random_ones(1, 28, 60_000)


def cifar_10(tiny: bool = False) -> Section:
    """50,000 pictures of 3×32×32; some random ones where tiny is enough."""
    there = not tiny and installed("cifar-10", "cifar-10-jpeg")
    return there or (random_ones(3, 32, 200, 10) if tiny else random_ones(3, 32, 50_000))


def installed(*names: str) -> Section | None:
    """The first of these data sets that is there."""
    found = next((name for name in names if where(name)), None)
    return {"name": found} if found else None


def random_ones(channels: int, side: int, count: int, tests: int = 10_000) -> Section:
    return {"name": "pictures:random_pictures", "channels": channels, "side": side, "count": count, "tests": tests}


def random_pictures(channels: int, side: int, count: int, tests: int) -> Dataset:
    """So many for training and for the test; every class has as many as any other."""
    random = torch.Generator().manual_seed(0)

    def some(number: int) -> tuple[Tensor, Tensor]:
        return torch.randn(number, channels, side, side, generator=random), torch.arange(number) % CLASSES

    return Dataset(f"random {channels}×{side}×{side}", *some(count), *some(tests), classes=CLASSES)
