"""The stacked oracle against autograd, model by model."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedamd.data.base import Dataset
from fedamd.errors import FedamdError
from fedamd.oracles.base import Batch
from fedamd.oracles.stacked import convolution, products
from fedamd.oracles.stacked import oracle as stacked
from fedamd.oracles.stacked.compilation import Compilation
from fedamd.oracles.stacked.oracle import StackedOracle, unsupported

Kernels = Callable[[str], ModuleType]

SHAPE = (2, 13, 12)
CLASSES = 3


class Named(nn.Sequential):
    """A subclass that only builds its layers."""


NETWORKS = {
    "two fused blocks": lambda: nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16, 5), nn.ReLU(), nn.Linear(5, CLASSES),
    ),
    "stride and padding": lambda: nn.Sequential(
        nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=(1, 0)), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(45, CLASSES),
    ),
    "nothing fused": lambda: Named(
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.MaxPool2d(2, 2), nn.ReLU()), nn.Conv2d(3, 2, 2, padding=1), nn.ReLU(),
        nn.Sequential(nn.Flatten(), nn.Linear(72, CLASSES)),
    ),
    "ReLU everywhere": lambda: nn.Sequential(
        nn.Flatten(), nn.ReLU(), nn.Linear(312, 7), nn.ReLU(), nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, CLASSES),
        nn.ReLU(),
    ),
    "perceptron": lambda: nn.Sequential(nn.Flatten(), nn.Linear(312, 7), nn.ReLU(), nn.Linear(7, CLASSES)),
}  # fmt: skip


def problem(network: str, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, Dataset]:
    torch.manual_seed(0)
    data = Dataset(
        "random",
        torch.randn(20, *SHAPE, dtype=dtype),
        torch.randint(CLASSES, (20,)),
        torch.randn(11, *SHAPE, dtype=dtype),
        torch.randint(CLASSES, (11,)),
        CLASSES,
    )
    return NETWORKS[network]().to(dtype), data


def draw(oracle: StackedOracle, models: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Batch]:
    x = 0.3 * torch.randn(models, oracle.dimension, dtype=dtype)
    weights = torch.rand(models, 6, dtype=dtype)
    return x, Batch(torch.randint(20, (models, 6)), weights / weights.sum(1, keepdim=True))


def by_autograd(model: nn.Module, data: Dataset, x: Tensor, samples: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient and loss of one model."""
    nn.utils.vector_to_parameters(x, model.parameters())
    losses = functional.cross_entropy(model(data.inputs[samples]), data.targets[samples], reduction="none")
    loss = losses @ weights
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))]), loss.detach()


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_gradient_and_loss_agree_with_autograd(network: str, dtype: torch.dtype, tolerance: float) -> None:
    model, data = problem(network, dtype)
    oracle = StackedOracle(model, data)
    assert oracle.dimension == sum(values.numel() for values in model.parameters())
    x, batch = draw(oracle, 3, dtype)
    gradients, losses = oracle.gradient(x, batch)
    torch.testing.assert_close(oracle.loss(x, batch), losses)
    for n in range(3):
        gradient, loss = by_autograd(model, data, x[n], batch.samples[n], batch.weights[n])
        assert (gradients[n] - gradient).norm() <= tolerance * gradient.norm()
        torch.testing.assert_close(losses[n], loss)


def test_one_model_is_a_row_of_a_stack() -> None:
    model, data = problem("two fused blocks")
    oracle = StackedOracle(model, data)
    x, batch = draw(oracle, 3)
    own = Batch(batch.samples[1], batch.weights[1])
    for one, many in (
        (oracle.gradient(x[1], own), oracle.gradient(x, batch)),
        (oracle.difference(x[1], x[0], own), oracle.difference(x, x[:1].expand(3, -1), batch)),
        ((oracle.loss(x[1], own),), (oracle.loss(x, batch),)),
        (oracle.evaluate(x[1]), oracle.evaluate(x)),
    ):
        for ours, theirs in zip(one, many, strict=True):
            torch.testing.assert_close(ours, theirs[1])


@pytest.mark.parametrize("network", NETWORKS)
def test_difference_is_of_two_gradients_on_the_same_batch(network: str) -> None:
    model, data = problem(network)
    oracle = StackedOracle(model, data)
    x, batch = draw(oracle, 2)
    previous = x + 0.1
    (now, loss), (then, _) = oracle.gradient(x, batch), oracle.gradient(previous, batch)
    difference, found = oracle.difference(x, previous, batch)
    torch.testing.assert_close(difference, now - then)
    torch.testing.assert_close(found, loss)


def test_models_at_one_point_need_no_copies_of_it() -> None:
    """Clients start a round at the same x: an expanded vector, whose rows are one memory."""
    model, data = problem("two fused blocks")
    oracle = StackedOracle(model, data)
    x, batch = draw(oracle, 3)
    shared = x[:1].expand(3, -1)
    gradients, _ = oracle.gradient(shared, batch)
    torch.testing.assert_close(gradients, oracle.gradient(shared.contiguous(), batch)[0])
    assert not torch.equal(gradients[0], gradients[1])


def test_samples_of_weight_zero_do_not_matter() -> None:
    model, data = problem("two fused blocks")
    oracle = StackedOracle(model, data)
    x, batch = draw(oracle, 2)
    batch.weights[:, 4:] = 0
    before = oracle.gradient(x, batch)
    batch.samples[:, 4:] = 0
    for one, other in zip(before, oracle.gradient(x, batch), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("network", ["two fused blocks", "nothing fused"])
def test_equal_values_in_a_window_pass_the_gradient_to_the_first(network: str) -> None:
    """With zero convolution weights all values of a window tie: PyTorch's rule decides, for any sign of the bias.

    Parameters are whole eighths, so that what the second convolution sums is exact in any order, and ties too.
    """
    model, data = problem(network)
    oracle = StackedOracle(model, data)
    x, batch = draw(oracle, 1)
    x = (8 * x).round() / 8
    x[0, :54] = 0  # the first convolution's 3·2·3·3 weights
    gradient, _ = oracle.gradient(x, batch)
    truth, _ = by_autograd(model, data, x[0], batch.samples[0], batch.weights[0])
    torch.testing.assert_close(gradient[0], truth)


def test_a_diverged_model_shows() -> None:
    model, data = problem("two fused blocks")
    oracle = StackedOracle(model, data)
    x, batch = draw(oracle, 2)
    x[0, 0] = torch.nan
    assert oracle.loss(x, batch).isnan().tolist() == [True, False]
    assert oracle.evaluate(x)[0].isnan().tolist() == [True, False]


@pytest.mark.parametrize("numbers", [2**28, 33000, 8000, 1])
def test_evaluation_covers_the_test_set_whatever_fits_in_memory(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked, "EVALUATION_NUMBERS", numbers)
    monkeypatch.setattr(stacked, "ALIGNED", 2)
    model, data = problem("two fused blocks")
    oracle = StackedOracle(model, data)
    x, _ = draw(oracle, 3)
    losses, accuracies = oracle.evaluate(x)
    for n in range(3):
        nn.utils.vector_to_parameters(x[n], model.parameters())
        outputs = model(data.test_inputs).detach()
        torch.testing.assert_close(losses[n], functional.cross_entropy(outputs, data.test_targets))
        right = int((outputs.argmax(1) == data.test_targets).sum())
        assert accuracies[n] == torch.tensor(right, dtype=torch.float64) / 11


@pytest.mark.parametrize(
    ("numbers", "one", "five"),
    [
        (2**28, [(12, 1)], [(12, 5)]),  # 11 samples, rounded up to an even number
        (3 * 12 * 624, [(12, 1)], [(12, 3), (12, 2)]),
        (4 * 624, 3 * [(4, 1)], 15 * [(4, 1)]),
    ],
)
def test_pieces_of_the_test_set_have_one_length_for_any_number_of_models(
    numbers: int, one: list[tuple[int, int]], five: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels are compiled for it. The perceptron holds 2 · 312 numbers of a sample at most: the image, and it flat."""
    monkeypatch.setattr(stacked, "EVALUATION_NUMBERS", numbers)
    monkeypatch.setattr(stacked, "ALIGNED", 2)
    oracle = StackedOracle(*problem("perceptron"))
    calls: list[tuple[int, int]] = []
    outputs = oracle._outputs

    def recorded(x: Tensor, inputs: Tensor) -> Tensor:
        calls.append((inputs.shape[-1], len(x)))
        return outputs(x, inputs)

    monkeypatch.setattr(oracle, "_outputs", recorded)
    x, _ = draw(oracle, 5)
    oracle.evaluate(x[0])
    assert calls == one
    calls.clear()
    oracle.evaluate(x)
    assert calls == five


@pytest.mark.parametrize("numbers", [2 * 12 * 387, 6 * 387])
def test_the_kernels_evaluate_a_model_the_same_in_any_stack(
    kernels: Kernels, device: str, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit by bit, two at a time or one by one and with the test set in two pieces."""
    kernels("triton_convolution")
    monkeypatch.setattr(StackedOracle, "_compile", lambda *_, **__: None)  # Triton's interpreter is for one thread
    for module in (stacked, convolution, products):
        monkeypatch.setattr(module, "has_kernels", lambda _: True)
    monkeypatch.setattr(stacked, "EVALUATION_NUMBERS", numbers)
    monkeypatch.setattr(stacked, "ALIGNED", 2)
    model, data = problem("two fused blocks", torch.float32)
    oracle = StackedOracle(model, data.to(device))
    x = draw(oracle, 3, torch.float32)[0].to(device)
    losses, accuracies = oracle.evaluate(x)
    for rows in (slice(0, 1), slice(1, 3)):
        loss, accuracy = oracle.evaluate(x[rows])
        assert torch.equal(loss, losses[rows])
        assert torch.equal(accuracy, accuracies[rows])
    monkeypatch.undo()
    plain = StackedOracle(model, data.to("cpu", torch.float64)).evaluate(x.cpu().double())
    torch.testing.assert_close(losses.cpu().double(), plain[0], rtol=1e-5, atol=0)
    assert torch.equal(accuracies.cpu(), plain[1].float())


def test_kernels_are_compiled_once_for_a_length_and_never_into_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = problem("perceptron", torch.float32)
    oracle = StackedOracle(model, data)
    compiled: list[dict[int, bool]] = []
    recording = True

    def compile_layer_kernels(_: object, rows: Tensor, backwards: dict[int, bool]) -> Compilation:
        return Compilation([[lambda: compiled.append(backwards)]], rows)

    monkeypatch.setattr(stacked, "compile_layer_kernels", compile_layer_kernels)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: recording)
    x, batch = draw(oracle, 2, torch.float32)
    oracle.gradient(x, batch)
    assert compiled == []  # there are no kernels for a CPU
    monkeypatch.setattr(stacked, "has_kernels", lambda values: values is data.inputs)
    monkeypatch.setattr(stacked, "gather", lambda rows, samples: rows[samples].movedim(1, -1))
    oracle.gradient(x, batch)
    assert compiled == []
    recording = False
    for _ in range(2):
        oracle.gradient(x, batch)
        oracle.evaluate(x)
    assert compiled == [{6: True}, {16: False}]
    for length in (5, 6, 16):
        oracle.expect(length)  # the evaluation's are there, but not backwards
        oracle.gradient(x, batch)
    assert compiled[2:] == [{5: True}, {16: True}]


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(312, CLASSES, bias=False)), "no layer Linear"),
        (nn.Sequential(nn.Conv2d(2, 2, 3, bias=False), nn.Flatten()), "with bias"),
        (nn.Sequential(nn.MaxPool2d(3), nn.Flatten(), nn.Linear(32, CLASSES)), "no layer MaxPool2d"),
        (nn.Sequential(nn.Flatten(), nn.Linear(312, 2)), "3 classes"),
        (nn.Sequential(nn.Flatten(), nn.Linear(312, CLASSES), nn.Tanh()), "none of the layers"),
    ],
)
def test_what_is_not_supported_is_said(model: nn.Module, reason: str) -> None:
    _, data = problem("perceptron")
    assert reason in (unsupported(model, data) or "")
    with pytest.raises(FedamdError, match="stacked oracle cannot"):
        StackedOracle(model, data)
