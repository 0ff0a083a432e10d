"""The operations of a gradient are those counted by hand."""

import importlib
from pathlib import Path

import pytest
from torch import nn

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_a_small_network_by_hand(monkeypatch):
    """A convolution of 2×4×4 outputs from 9 inputs each, pooled, half of it dropped, and a linear layer of 8×3.

    All: 2·288·2, since the pictures need no gradient, and 2·24·3. Needed: of the convolution's gradients an eighth,
    of the linear layer's inputs a half.
    """
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    floor = importlib.import_module("floor")
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.5), nn.Linear(8, 3)
    )
    assert floor.operations(model, (1, 6, 6)) == pytest.approx((1152 + 144, 576 * 1.125 + 72))
