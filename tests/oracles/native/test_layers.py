"""Which models the native oracle takes, and the reasons it gives for the others. No library is needed to ask."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from fedamd.data.base import Dataset
from fedamd.oracles.native.layers import unsupported

DATA = Dataset(
    "zeros", torch.zeros(3, 1, 6, 6), torch.zeros(3).long(), torch.zeros(2, 1, 6, 6), torch.zeros(2).long(), 4
)


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 4))


def test_takes_nested_sequentials_of_its_layers() -> None:
    features = nn.Sequential(nn.Conv2d(1, 2, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    assert unsupported(nn.Sequential(features, nn.Flatten(), nn.Linear(2, 4, bias=False)), DATA) is None


@pytest.mark.parametrize(("pool", "features"), [(nn.MaxPool2d(3, stride=2), 4), (nn.MaxPool2d(2, padding=1), 16)])
def test_windows_lie_side_by_side(pool: nn.Module, features: int) -> None:
    answer = unsupported(nn.Sequential(pool, nn.Flatten(), nn.Linear(features, 4)), DATA)
    assert "stride other than its kernel, or padding" in str(answer)


def test_what_is_not_plain_is_refused() -> None:
    model = mlp()
    model.register_forward_hook(lambda *_: None)
    assert unsupported(model, DATA) == "the model has hooks"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"inputs": DATA.inputs.double()}, "float32"),
        ({"test_inputs": DATA.test_inputs.half()}, "float32"),
        ({"targets": torch.zeros(3)}, "int64"),
        ({"classes": 0}, "the data have none"),
        ({"test_inputs": torch.zeros(2, 1, 6, 5)}, "one shape"),
        ({"inputs": torch.zeros(3, 6, 6), "test_inputs": torch.zeros(2, 6, 6)}, "images"),
        ({"targets": torch.zeros(2).long()}, "one int64 target for every sample"),
    ],
)
def test_data_it_cannot_take(change: dict[str, object], reason: str) -> None:
    assert reason in str(unsupported(mlp(), replace(DATA, **change)))


def test_double_precision_is_not_for_it() -> None:
    assert "float32" in str(unsupported(mlp().double(), DATA))
