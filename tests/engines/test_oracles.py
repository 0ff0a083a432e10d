"""Every method leads where the loop with automatic differentiation leads, through every oracle, from a common start.

Images of unequal clients, flipped and cropped where the oracle takes that; networks with GroupNorm, Dropout or both,
whichever the oracle takes.
"""

import dataclasses
import logging
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fedamd
from fedamd.algorithms import ALGORITHMS
from fedamd.data.augment import FlipCrop
from fedamd.data.base import Dataset, Partition
from fedamd.oracles import native
from fedamd.oracles.objective import flat_parameters
from residual import Residual

SIZES = (1, 4, 7, 2, 6)
SMALL = {"eta_l": 0.05, "steps": 3, "small_batch": 3}


def normalised_and_dropped() -> nn.Module:
    groups = nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.MaxPool2d(2), nn.Dropout(0.3))
    return nn.Sequential(groups, nn.Flatten(), nn.Linear(36, 5), nn.Dropout(0.5), nn.Linear(5, 3))


def plain() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3))


def dropped() -> nn.Module:
    layers = (nn.Conv2d(2, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3), nn.Flatten(), nn.Linear(36, 5))
    return nn.Sequential(*layers, nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 3))


# oracle → network, type, augmentation, how far off in parts of the way that was gone
CASES: dict[str, tuple[Callable[[], nn.Module], str, FlipCrop | None, float]] = {
    "autograd": (normalised_and_dropped, "float64", FlipCrop((0.0, 0.0), padding=1), 1e-9),
    "stacked": (plain, "float64", None, 1e-9),
    "graph": (Residual, "float64", None, 1e-9),
    "native": (dropped, "float32", None, 1e-3),
}


def small(name: str) -> fedamd.Algorithm:
    """The method of this name with its defaults, but for small steps and batches."""
    method = ALGORITHMS[name]
    fields = {field.name for field in dataclasses.fields(method.make)}
    return method.make(**dict(method.presets) | {key: value for key, value in SMALL.items() if key in fields})


@cache
def problem(oracle: str) -> dict[str, Any]:
    network, dtype, augment, _ = CASES[oracle]
    random = torch.Generator().manual_seed(5)
    images = torch.randn(sum(SIZES), 2, 9, 8, generator=random, dtype=torch.float64)
    labels = torch.randint(3, (sum(SIZES),), generator=random)
    owned = Partition.of(torch.randperm(sum(SIZES), generator=random).split(SIZES))
    torch.manual_seed(1)
    data = Dataset("images", images, labels, images, labels, classes=3, clients=owned, augment=augment)
    return {"dataset": data, "model": network(), "dtype": dtype, "cohort": 4, "rounds": 2}


def way(name: str, engine: str, oracle: str, **problem: Any) -> Tensor:
    """From the common start to where the method ends."""
    result = fedamd.run(algorithm=small(name), engine=engine, oracle=oracle, **problem)
    return result.x.cpu() - flat_parameters(problem["model"]).to("cpu", result.x.dtype)


@pytest.mark.parametrize("oracle", CASES)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_method_leads_where_the_loop_leads(name: str, oracle: str) -> None:
    if oracle == "native" and (reason := native.available()):
        pytest.skip(reason)
    expected = way(name, "loop", "autograd", **problem(oracle))
    assert expected.norm() > 0
    assert (way(name, "vector", oracle, **problem(oracle)) - expected).norm() <= CASES[oracle][-1] * expected.norm()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("oracle", ["stacked", "graph"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_on_a_gpu_too(name: str, oracle: str, caplog: pytest.LogCaptureFixture) -> None:
    """By its kernels, which are for float32: on a CPU that leads 6e-6 of the way elsewhere at most."""
    single = problem(oracle) | {"dtype": "float32"}
    expected = way(name, "loop", "autograd", **single)
    with caplog.at_level(logging.WARNING, logger="fedamd"):
        found = way(name, "vector", oracle, **single, device="cuda")
    assert not caplog.text  # as of an oracle that would not do
    assert (found - expected).norm() <= 1e-3 * expected.norm()
