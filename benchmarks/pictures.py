"""The pictures that benchmarks train on: the data set where it is installed, else random tensors of its shape."""

from functools import cache

import torch
from torch import Tensor

from fedamd.data import Dataset, load, where

CLASSES = 10


@cache
def fashion_mnist(tiny: bool = False) -> Dataset:
    """60,000 pictures of 1×28×28."""
    return random_pictures((1, 28, 28), 400, 50) if tiny else installed(("fashion-mnist",), (1, 28, 28), 60_000)


@cache
def cifar_10(tiny: bool = False) -> Dataset:
    """50,000 pictures of 3×32×32."""
    named = ("cifar-10", "cifar-10-jpeg")
    return random_pictures((3, 32, 32), 200, 10) if tiny else installed(named, (3, 32, 32), 50_000)


def installed(names: tuple[str, ...], shape: tuple[int, ...], count: int) -> Dataset:
    """The first of these data sets that is there."""
    found = next((name for name in names if where(name)), None)
    return load(found) if found else random_pictures(shape, count, 10_000)


def random_pictures(shape: tuple[int, ...], count: int, tests: int) -> Dataset:
    """So many for training and for the test; every class has as many as any other."""
    random = torch.Generator().manual_seed(0)

    def some(number: int) -> tuple[Tensor, Tensor]:
        return torch.randn(number, *shape, generator=random), torch.arange(number) % CLASSES

    return Dataset(f"random {'×'.join(map(str, shape))}", *some(count), *some(tests), classes=CLASSES)
