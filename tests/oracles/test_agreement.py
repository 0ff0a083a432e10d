"""An oracle that computes another function than the model is found out on samples of the data."""

import pytest
import torch
from torch import Tensor, nn

from fedamd.data.base import Dataset
from fedamd.models import LeNet5
from fedamd.oracles import agreement
from fedamd.oracles.agreement import disagreement
from fedamd.oracles.autograd import AutogradOracle
from fedamd.oracles.base import Batch
from fedamd.oracles.stacked.oracle import StackedOracle


def images(count: int = 60, dtype: torch.dtype = torch.float32) -> Dataset:
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(count, 1, 16, 16, generator=random, dtype=dtype)
    targets = torch.randint(4, (count,), generator=random)
    return Dataset("images", inputs, targets, inputs[:3], targets[:3], 4)


class Regularised(AutogradOracle):
    """Off by a term that is small against the loss, but is there."""

    def gradient(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        gradient, loss = super().gradient(x, batch)
        return gradient + 0.1 * x, loss + 0.05 * x.square().sum()


class Broken(AutogradOracle):
    def gradient(self, *_: object) -> tuple[Tensor, Tensor]:
        raise RuntimeError("no kernel image is available\nmore")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_computes_the_model_agrees(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, data = LeNet5(1, 16, 16, 4).to(dtype), images(dtype=dtype)
    assert disagreement(StackedOracle(model, data), model, data) is None
    assert disagreement(AutogradOracle(model, data), model, data) is None


def test_batches_are_as_long_as_the_oracle_expects() -> None:
    """On samples that count as before."""
    torch.manual_seed(0)
    model, data = LeNet5(1, 16, 16, 4), images()
    widths: set[int] = set()

    class Curious(StackedOracle):
        def gradient(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
            widths.add(batch.samples.shape[-1])
            return super().gradient(x, batch)

    assert disagreement(Curious(model, data), model, data, 21) is None
    assert widths == {21}


def test_what_computes_something_else_does_not() -> None:
    torch.manual_seed(0)
    model, data = LeNet5(1, 16, 16, 4), images()
    assert "off autograd's in float64" in str(disagreement(Regularised(model, data), model, data))
    assert disagreement(Broken(model, data), model, data) == "it fails (no kernel image is available)"


def test_not_a_number_is_a_disagreement() -> None:
    class Lost(AutogradOracle):
        def gradient(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
            return x * float("nan"), super().gradient(x, batch)[1]

    model, data = nn.Sequential(nn.Flatten(), nn.Linear(256, 4)), images()
    assert "nan" in str(disagreement(Lost(model, data), model, data))


def test_one_batch_in_three_may_fall_on_the_other_side_of_a_kink() -> None:
    class Once(AutogradOracle):
        calls = 0

        def gradient(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
            type(self).calls += 1
            gradient, loss = super().gradient(x, batch)
            return (1.01 if self.calls == 1 else 1) * gradient, loss

    model, data = nn.Sequential(nn.Flatten(), nn.Linear(256, 4)), images()
    assert disagreement(Once(model, data), model, data) is None
    assert Once.calls >= 3


def test_a_stack_is_looked_at_too() -> None:
    class Mixed(AutogradOracle):
        def gradient(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
            gradient, loss = super().gradient(x, batch)
            return gradient.flip(0) if x.dim() == 2 else gradient, loss

    model, data = nn.Sequential(nn.Flatten(), nn.Linear(256, 4)), images()
    assert "off autograd's in float64" in str(disagreement(Mixed(model, data), model, data))


@pytest.mark.parametrize("count", [0, 1, 5])
def test_few_samples_are_enough_and_none_are_no_reason(count: int) -> None:
    model, data = nn.Sequential(nn.Flatten(), nn.Linear(256, 4)), images(count)
    assert disagreement(StackedOracle(model, data), model, data) is None


def test_runs_of_a_sweep_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr(agreement, "_compared", lambda *_: looks.append(1))
    data, others = images(), images()
    for model in (LeNet5(1, 16, 16, 4), LeNet5(1, 16, 16, 4)):
        for seen in (data, others):
            disagreement(StackedOracle(model, seen), model, seen)
    assert len(looks) == 2
