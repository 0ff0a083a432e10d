"""Which models the native oracle takes, and the reasons it gives for the others. No library is needed to ask."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from fedamd.data.base import Dataset
from fedamd.oracles.native.layers import unsupported

DATA = Dataset(
    "zeros", torch.zeros(3, 1, 6, 6), torch.zeros(3).long(), torch.zeros(2, 1, 6, 6), torch.zeros(2).long(), 4
)


class Own(nn.Sequential):
    """A Sequential that is none: it computes something else."""

    def forward(self, inputs: Tensor) -> Tensor:
        return -inputs.flatten(1)


class OwnLoss(nn.Sequential):
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs[:, 0] - targets


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 4))


def test_takes_nested_sequentials_of_its_layers() -> None:
    features = nn.Sequential(nn.Conv2d(1, 2, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    assert unsupported(nn.Sequential(features, nn.Flatten(), nn.Linear(2, 4, bias=False)), DATA) is None


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (nn.Tanh(), "Tanh.. is none of the layers it knows"),
        (nn.BatchNorm2d(1), "BatchNorm2d"),
        (nn.Flatten(2), "none of the layers"),
        (Own(), "Own"),
        (nn.Conv2d(1, 2, 3, dilation=2), "dilation"),
        (nn.Conv2d(2, 2, 3, groups=2), "groups"),
        (nn.Conv2d(1, 2, 3, padding="same"), "padding"),
        (nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect"), "padding"),
        (nn.MaxPool2d(3, stride=2), "stride other than its kernel"),
        (nn.MaxPool2d(2, padding=1), "padding"),
        (nn.MaxPool2d(2, ceil_mode=True), "ceil_mode"),
    ],
)
def test_names_the_layer_it_cannot_take(layer: nn.Module, reason: str) -> None:
    answer = unsupported(nn.Sequential(layer, nn.Flatten(), nn.Linear(36, 4)), DATA)
    assert answer is not None
    assert reason.replace("..", "()") in answer


def test_a_module_that_is_no_sequential() -> None:
    assert "none of the layers" in str(unsupported(nn.Bilinear(2, 2, 2), DATA))


def test_shared_parameters() -> None:
    layer = nn.Linear(36, 36)
    assert unsupported(nn.Sequential(nn.Flatten(), layer, layer), DATA) == "layers of the model share parameters"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"inputs": DATA.inputs.double()}, "float32"),
        ({"test_inputs": DATA.test_inputs.half()}, "float32"),
        ({"targets": torch.zeros(3)}, "int64"),
        ({"classes": 0}, "no classes"),
        ({"test_inputs": torch.zeros(2, 1, 6, 5)}, "one shape"),
        ({"inputs": torch.zeros(3, 6, 6), "test_inputs": torch.zeros(2, 6, 6)}, "images"),
        ({"targets": torch.zeros(2).long()}, "one target"),
    ],
)
def test_data_it_cannot_take(change: dict[str, object], reason: str) -> None:
    assert reason in str(unsupported(mlp(), replace(DATA, **change)))


def test_models_it_cannot_take() -> None:
    assert "float32" in str(unsupported(mlp().double(), DATA))
    assert "its own loss" in str(unsupported(OwnLoss(nn.Flatten(), nn.Linear(36, 4)), DATA))
