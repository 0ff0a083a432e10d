"""What the native oracle refuses: samples, labels, shapes and layers that its kernels would trust."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from fedamd.data.base import Dataset
from fedamd.errors import FedamdError
from fedamd.oracles.base import Batch
from fedamd.oracles.native import oracle as oracle_module
from fedamd.oracles.native.layers import Description
from fedamd.oracles.native.oracle import NativeOracle

pytestmark = pytest.mark.usefixtures("library")


def small() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 5))


def images(tests: int = 70) -> Dataset:
    """90 of 2 × 8 × 8 in five classes."""
    inputs, labels = torch.randn(90, 2, 8, 8), torch.arange(90) % 5
    return Dataset("random", inputs, labels, inputs[:tests].clone(), labels[:tests].clone(), 5)


def test_refuses_samples_out_of_range() -> None:
    oracle = NativeOracle(small(), images())
    x, weights = torch.ones(oracle.dimension), torch.full((2,), 0.5)
    for wrong in (-1, 90, 2**40):
        batch = Batch(torch.tensor([0, wrong]), weights)
        for call in (oracle.gradient, oracle.loss, lambda x, batch: oracle.descend(x, torch.ones(1), [batch])):
            with pytest.raises(FedamdError, match=f"sample {wrong} is not one of the 90 samples"):
                call(x, batch)


def test_refuses_labels_the_model_has_no_output_for() -> None:
    data = images()
    oracle = NativeOracle(small(), data)
    data.targets[7], data.test_targets[0] = 5, -1  # after it has looked
    x = torch.ones(oracle.dimension)
    with pytest.raises(FedamdError, match="sample 7 has the label 5, and the model has 5 classes"):
        oracle.gradient(x, Batch(torch.tensor([7]), torch.ones(1)))
    with pytest.raises(FedamdError, match="sample 0 has the label -1"):
        oracle.evaluate(x)


def test_refuses_shapes_and_types_that_do_not_fit() -> None:
    oracle = NativeOracle(small(), images())
    x, batch = torch.ones(oracle.dimension), Batch(torch.arange(4), torch.full((4,), 0.25))
    with pytest.raises(FedamdError, match="must have the shape"):
        oracle.gradient(x[1:], batch)
    with pytest.raises(FedamdError, match="must have the shape"):
        oracle.evaluate(x.expand(2, 2, -1))
    with pytest.raises(FedamdError, match=r"float32 parameters on the CPU, not torch\.float64"):
        oracle.gradient(x.double(), batch)
    with pytest.raises(FedamdError, match="do not go together"):
        oracle.gradient(x.expand(2, -1), batch)
    with pytest.raises(FedamdError, match="do not go together"):
        oracle.gradient(x, replace(batch, weights=batch.weights[1:]))
    with pytest.raises(FedamdError, match=r"int64 samples and float32 weights, not torch.int32"):
        oracle.gradient(x, replace(batch, samples=batch.samples.int()))
    with pytest.raises(FedamdError, match=r"what goes with it \(2, "):
        oracle.difference(x, x.expand(2, -1), batch)
    with pytest.raises(FedamdError, match=r"what goes with it \(2, "):
        oracle.corrected(x.expand(2, -1), x, x, batch)


def test_refuses_what_it_would_compute_otherwise() -> None:
    with pytest.raises(FedamdError, match=r"cannot be used: .* takes 127 inputs in a row"):
        NativeOracle(nn.Sequential(nn.Flatten(), nn.Linear(127, 5)), images())


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        ([(3,), (4, 127, 5, *[0] * 6, 1)], "layer 1 takes 127 inputs and is given 128"),
        ([(0, 3, 4, 3, 3, 1, 1, 0, 0, 1)], "layer 0 takes 3 channels and is given 2"),
        ([(0, 2, 4, 9, 9, 1, 1, 0, 0, 1)], "layer 0 has a kernel larger than its input of 8 × 8"),
        ([(4, 8, 5, *[0] * 6, 1)], "put a Flatten before it"),
        ([(3,), (2, 0, 0, 2, 2, 2, 2, 0, 0, 0)], "layer 1 needs an image"),
        ([(5, *[0] * 9, 1.5)], "layer 0 drops a share that is not between 0 and 1"),
        ([(6,)], "layer 0 is of an unknown kind"),
        ([(0, 2, 4, 3, 3, 1, 1, 0, 0, 1)], "must end in a flat vector of logits"),
        ([], "must end in a flat vector of logits"),
    ],
)
def test_the_library_checks_what_is_described_to_it(
    layers: list[tuple[float, ...]], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracle_module, "describe", lambda *_: [Description(*layer) for layer in layers])
    model = nn.Sequential(nn.Flatten(), nn.Linear(128, 5))
    with pytest.raises(FedamdError, match=reason):
        NativeOracle(model, images())


def test_refuses_a_number_of_threads_below_one() -> None:
    with pytest.raises(FedamdError, match="threads must be between"):
        NativeOracle(small(), images(), threads=0)


def test_refuses_to_evaluate_on_nothing() -> None:
    oracle = NativeOracle(small(), images(tests=0))
    with pytest.raises(FedamdError, match="no test samples"):
        oracle.evaluate(torch.ones(oracle.dimension))
