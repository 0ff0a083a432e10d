"""Dropout in the native oracle: the masks of `fedamd.oracles.dropout`, against autograd in float64.

Small integers for weights and inputs, and shares p whose 1/(1 − p) are integers: see `test_oracle`.
"""

from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

import fedamd
from fedamd.data.base import Dataset
from fedamd.errors import FedamdError
from fedamd.oracles.agreement import disagreement
from fedamd.oracles.autograd import AutogradOracle
from fedamd.oracles.base import Batch
from fedamd.oracles.native.oracle import NativeOracle

pytestmark = pytest.mark.usefixtures("library")


def network(p: float = 0.5) -> nn.Sequential:
    """Dropout in front of everything, on images behind pooling, and on a vector."""
    torch.manual_seed(3)
    layers = nn.Sequential(
        nn.Dropout(0.5),
        *(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(p)),
        *(nn.Flatten(), nn.Linear(27, 8), nn.ReLU(), nn.Dropout(0.75), nn.Linear(8, 5)),
    )
    for parameter in layers.parameters():
        parameter.data = torch.randint(-2, 3, parameter.shape).float()
    return layers


@pytest.fixture
def data() -> Dataset:
    torch.manual_seed(4)
    inputs, labels = torch.randint(-2, 3, (60, 2, 8, 8)).float(), torch.randint(0, 5, (60,))
    return Dataset("random", inputs, labels, inputs[:30], labels[:30], 5)


def batch(*shape: int) -> Batch:
    torch.manual_seed(5)
    samples = torch.randint(0, 60, shape)
    return Batch(samples, torch.full(shape, 1 / shape[-1]), torch.randint(-(2**62), 2**62, shape))


def reference(model: nn.Module, data: Dataset, x: Tensor, own: Batch) -> tuple[Tensor, Tensor]:
    oracle = AutogradOracle(deepcopy(model).double(), data.to("cpu", torch.float64))
    return oracle.gradient(x.double(), Batch(own.samples, own.weights.double(), own.keys))


def flat(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


@pytest.mark.parametrize("p", [0.5, 0.75, 1.0])
@pytest.mark.parametrize("size", [1, 21, 100])
def test_gradient_and_loss(p: float, size: int, data: Dataset) -> None:
    """In batches that fill no block, some blocks, and more than one group."""
    model, own = network(p), batch(size)
    oracle = NativeOracle(model, data)
    assert oracle.keyed
    gradient, loss = oracle.gradient(flat(model), own)
    expected, expected_loss = reference(model, data, flat(model), own)
    assert loss.double() == pytest.approx(float(expected_loss), rel=1e-5)
    assert (gradient - expected).abs().max() <= 1e-5 * expected.abs().max().clamp(min=1)
    assert oracle.loss(flat(model), own) == pytest.approx(float(loss), rel=1e-6), "with the same masks"


def test_a_stack_has_each_models_own_masks(data: Dataset) -> None:
    model, own = network(), batch(3, 20)
    own.weights[1, 13:] = 0  # padding, and its keys are not used either
    stack = torch.stack([flat(model), flat(model), 2 * flat(model)])
    gradients, _ = NativeOracle(model, data).gradient(stack, own)
    for row in range(3):
        alone = Batch(own.samples[row], own.weights[row], own.keys[row])
        expected, _ = reference(model, data, stack[row], alone)
        assert (gradients[row] - expected).abs().max() <= 1e-5 * expected.abs().max().clamp(min=1)


def test_nothing_is_dropped_in_evaluation(data: Dataset) -> None:
    model = network()
    with torch.no_grad():
        outputs = model.eval()(data.test_inputs)
    loss, accuracy = NativeOracle(network(), data).evaluate(flat(model))
    assert float(accuracy) == pytest.approx(float((outputs.argmax(1) == data.test_targets).float().mean()))
    assert float(loss) == pytest.approx(float(nn.functional.cross_entropy(outputs, data.test_targets)), rel=1e-5)


def test_the_first_look_at_an_oracle_takes_dropout_in(data: Dataset) -> None:
    assert disagreement(NativeOracle(network(), data), network(), data) is None


@pytest.mark.parametrize("algorithm", [fedamd.FedAvg(eta_l=0.05, steps=3, small_batch=10), fedamd.FedAMD(eta_l=0.05)])
def test_the_trajectory_of_the_loop(algorithm: fedamd.Algorithm) -> None:
    """Two rounds on the digits; rounding alone tells the two apart."""

    def trained(engine: str, oracle: str) -> Tensor:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 10))
        how = {"engine": engine, "oracle": oracle, "clients": 10, "cohort": 4, "rounds": 2}
        result = fedamd.run(data={"name": "digits"}, model=model, algorithm=algorithm, **how)
        assert result.model is not model
        return flat(result.model) - flat(model)

    expected = trained("loop", "autograd")
    assert (trained("vector", "native") - expected).norm() <= 1e-4 * expected.norm()


def test_without_keys_or_in_another_mode(data: Dataset) -> None:
    model, own = network(), batch(4)
    with pytest.raises(FedamdError, match="needs the keys of the batch's samples"):
        NativeOracle(model, data).gradient(flat(model), Batch(own.samples, own.weights))
    with pytest.raises(FedamdError, match="one for every sample"):
        NativeOracle(model, data).gradient(flat(model), Batch(own.samples, own.weights, own.keys[:2]))
    model[4].eval()
    assert "in another mode" in (NativeOracle.unsupported(model, data) or "")


def test_dropout_of_nothing_needs_no_keys(data: Dataset) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.0), nn.Linear(128, 5))
    oracle, own = NativeOracle(model, data), batch(4)
    assert not oracle.keyed
    gradient, _ = oracle.gradient(flat(model), Batch(own.samples, own.weights))
    expected, _ = reference(model, data, flat(model), Batch(own.samples, own.weights))
    assert torch.allclose(gradient.double(), expected, atol=1e-5)
