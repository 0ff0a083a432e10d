"""The native oracle against PyTorch's autograd in float64.

Rounding could send a float32 and a float64 computation through different sides of a ReLU or of a max-pooling, where
gradients jump. So the random networks here have small integers for weights and inputs: every activation is then exact
in both, ties and zeros included, and what remains is the rounding of softmax and of the backward sums. A sum of n
float32 terms is off by about √n · 6e-8 of its size; n stays below 10^4, hence a tolerance of 1e-5 of the largest entry.
"""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fedamd.data.base import Dataset
from fedamd.oracles.base import Batch
from fedamd.oracles.native.oracle import NativeOracle

pytestmark = pytest.mark.usefixtures("library")


def lenet5() -> nn.Sequential:
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Sequential(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
        nn.Sequential(nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )


def small() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 5))


def dataset(shape: tuple[int, ...], classes: int, samples: int = 90, tests: int = 70) -> Dataset:
    """Inputs are integers from −2 to 2."""

    def inputs(n: int) -> Tensor:
        return torch.randint(-2, 3, (n, *shape)).float()

    def labels(n: int) -> Tensor:
        return torch.randint(0, classes, (n,))

    return Dataset("random", inputs(samples), labels(samples), inputs(tests), labels(tests), classes)


def flat(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


def uniform(*shape: int, samples: int = 90) -> Batch:
    return Batch(torch.randint(0, samples, shape), torch.full(shape, 1 / shape[-1]))


def expected(model: nn.Module, data: Dataset, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Gradient and loss by autograd in float64, for one model."""
    model = model.double()
    nn.utils.vector_to_parameters(x.double(), model.parameters())
    used = batch.weights != 0
    samples, weights = batch.samples[used], batch.weights[used].double()
    losses = F.cross_entropy(model(data.inputs[samples].double()), data.targets[samples], reduction="none")
    loss = (weights * losses).sum()
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return torch.cat([gradient.flatten() for gradient in gradients]), loss.detach()


def assert_near(actual: Tensor, wanted: Tensor, tolerance: float = 1e-5) -> None:
    assert (actual.double() - wanted.double()).abs().max() <= tolerance * wanted.abs().max().clamp(min=1e-3)


@st.composite
def networks(draw: st.DrawFn) -> tuple[nn.Sequential, tuple[int, ...]]:
    """Up to three rounds of convolution, ReLU and pooling, each optional, then up to two linear layers."""
    pick = lambda low, high: draw(st.integers(low, high))  # noqa: E731
    channels, height, width = pick(1, 4), pick(5, 14), pick(5, 14)
    shape = (channels, height, width)
    layers: list[nn.Module] = []
    for _ in range(pick(0, 3)):
        kernel, stride, padding = (pick(1, 7), pick(1, 7)), (pick(1, 2), pick(1, 2)), (pick(0, 2), pick(0, 2))
        if height + 2 * padding[0] < kernel[0] or width + 2 * padding[1] < kernel[1]:
            break
        outputs = pick(1, 9)
        layers.append(nn.Conv2d(channels, outputs, kernel, stride, padding, bias=draw(st.booleans())))
        channels = outputs
        height = (height + 2 * padding[0] - kernel[0]) // stride[0] + 1
        width = (width + 2 * padding[1] - kernel[1]) // stride[1] + 1
        if draw(st.booleans()):
            layers.append(nn.ReLU())
        window = draw(st.sampled_from([None, (2, 2), (2, 2), (1, 3), (3, 2)]))
        if window and height >= window[0] and width >= window[1]:
            layers.append(nn.MaxPool2d(window))
            height, width = height // window[0], width // window[1]
    layers.append(nn.Flatten())
    size = channels * height * width
    for _ in range(pick(0, 2)):
        outputs = pick(1, 40)
        layers += [nn.Linear(size, outputs, bias=draw(st.booleans())), nn.ReLU()]
        size = outputs
    layers.append(nn.Linear(size, pick(2, 11)))
    return nn.Sequential(*layers), shape


def make_exact(model: nn.Sequential, inputs: Tensor) -> None:
    """Weights −1, 0, 1; the last layer's shrunk by a power of two: logits of size one, a softmax that is soft."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randint(-1, 2, parameter.shape))
        largest = model(inputs).abs().max().clamp(min=1)
        assert largest < 2**22  # exact
        last = model[-1]
        assert isinstance(last, nn.Linear)
        for parameter in last.parameters():
            parameter.mul_(0.5 ** math.ceil(math.log2(largest)))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(networks(), st.integers(1, 70), st.integers(0, 20), st.integers(0, 2**31))
def test_random_networks(network: tuple[nn.Sequential, tuple[int, ...]], length: int, padding: int, seed: int) -> None:
    """Gradient, difference, loss and evaluation, of one model and of a stack of two, on batches with padding."""
    torch.manual_seed(seed)
    model, shape = network
    data = dataset(shape, model[-1].out_features)
    points = []
    for _ in range(2):
        make_exact(model, torch.cat([data.inputs, data.test_inputs]))
        points.append(flat(model))
    x = torch.stack(points)
    weights = torch.rand(2, length + padding)
    weights[:, length:] = 0
    weights /= weights.sum(1, keepdim=True)
    batch = Batch(torch.randint(0, 90, weights.shape), weights)
    batch.samples[:, length:] = -1  # padding is never looked at
    oracle = NativeOracle(model, data, threads=2)

    gradients, losses = oracle.gradient(x, batch)
    differences, _ = oracle.difference(x, x.flip(0), batch)
    test_losses, accuracies = oracle.evaluate(x)
    assert oracle.dimension == x.shape[1]
    assert torch.equal(oracle.loss(x, batch), losses)
    for i in range(2):
        row = Batch(batch.samples[i], batch.weights[i])
        gradient, loss = expected(model, data, x[i], row)
        assert_near(gradients[i], gradient)
        assert_near(losses[i], loss)
        assert_near(differences[i], gradient - expected(model, data, x[1 - i], row)[0], tolerance=2e-5)
        alone, loss_alone = oracle.gradient(x[i], row)
        assert_near(alone, gradient)
        assert_near(loss_alone, loss)
        nn.utils.vector_to_parameters(x[i].double(), model.parameters())
        with torch.no_grad():
            logits = model(data.test_inputs.double())
        assert_near(test_losses[i], F.cross_entropy(logits, data.test_targets))
        assert accuracies[i] == (logits.argmax(1) == data.test_targets).float().mean()


@pytest.mark.parametrize("kernel", [3, (2, 6), (5, 1)])
def test_many_channels(kernel: int | tuple[int, int]) -> None:
    """As many as fill several vectors, behind them a pooling: only what was largest has a gradient."""
    torch.manual_seed(0)
    convolutions = [nn.Conv2d(2, 20, 3), nn.ReLU(), nn.Conv2d(20, 9, kernel), nn.ReLU(), nn.MaxPool2d(2)]
    features = nn.Sequential(*convolutions, nn.Flatten())
    data = dataset((2, 12, 13), 4)
    model = nn.Sequential(*features, nn.Linear(features(data.inputs[:1]).shape[1], 4))
    make_exact(model, data.inputs)
    oracle, x, batch = NativeOracle(model, data), flat(model), uniform(21)
    assert_near(oracle.gradient(x, batch)[0], expected(model, data, x, batch)[0])


@pytest.mark.parametrize(("outputs", "relu"), [(16, True), (48, False)])
def test_channels_that_fill_the_lanes(outputs: int, relu: bool) -> None:
    """3 × 3 kernels with a pooling behind them: the places of a window share products. Also what is scored."""
    torch.manual_seed(0)
    behind = [nn.ReLU(), nn.MaxPool2d(2)] if relu else [nn.MaxPool2d(2)]
    convolutions = [nn.Conv2d(2, 16, 3), nn.ReLU(), nn.Conv2d(16, outputs, 3, bias=relu), *behind]
    data = dataset((2, 11, 18), 4)
    model = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(outputs * 3 * 7, 4))
    make_exact(model, data.inputs)
    oracle, x, batch = NativeOracle(model, data), flat(model), uniform(21)
    gradient, loss = expected(model, data, x, batch)
    assert_near(oracle.gradient(x, batch)[0], gradient)
    assert_near(oracle.loss(x, batch), loss)


@pytest.mark.parametrize("length", [5, 21, 70])
def test_a_linear_layer_of_many_weights(length: int) -> None:
    """They come in tiles, the last of them not full. A step on one group of samples changes them on the way."""
    torch.manual_seed(length)
    middle = [nn.Linear(50, 1003), nn.ReLU(), nn.Linear(1003, 270, bias=length > 5), nn.ReLU()]
    model, data = nn.Sequential(nn.Flatten(), *middle, nn.Linear(270, 5)), dataset((2, 5, 5), 5)
    make_exact(model, data.inputs)
    oracle, x, batch = NativeOracle(model, data), flat(model), uniform(length)
    gradient, loss = expected(model, data, x, batch)
    assert_near(oracle.gradient(x, batch)[0], gradient)
    stepped, seen = oracle.step(x, torch.tensor(0.125), batch)
    assert_near(stepped - x, -0.125 * gradient)
    assert_near(seen, loss)


@pytest.mark.parametrize("length", [64, 600])
def test_lenet5_with_ordinary_weights(length: int) -> None:
    """Real-valued weights: no pre-activation of these few is near enough to a kink to matter."""
    torch.manual_seed(length)
    model, data = lenet5(), dataset((1, 28, 28), 10)
    oracle, x = NativeOracle(model, data), flat(model)
    batch = uniform(length)
    gradient, loss = expected(model, data, x, batch)
    actual, actual_loss = oracle.gradient(x, batch)
    assert_near(actual, gradient)
    assert_near(actual_loss, loss)
    assert_near(
        oracle.gradient(torch.stack([x, 2 * x]), Batch(*(t.expand(2, -1) for t in (batch.samples, batch.weights))))[0][
            0
        ],
        gradient,
    )


def test_numbers_do_not_depend_on_threads() -> None:
    torch.manual_seed(0)
    model, data = lenet5(), dataset((1, 28, 28), 10)
    x = torch.stack([flat(model) * scale for scale in (0.9, 1.0, 1.1)])
    one, many, fewer = uniform(300), uniform(3, 100), uniform(3, 20)
    results = []
    for threads in (1, 2, 5):
        oracle = NativeOracle(model, data, threads)
        results.append(
            [
                *oracle.gradient(x[0], one),
                *oracle.difference(x[0], x[1], one),
                *oracle.gradient(x, many),
                *oracle.difference(x, x.flip(0), many),
                *oracle.evaluate(x),
                *oracle.evaluate(x[0]),
                oracle.loss(x, many),
                oracle.descend(x, torch.tensor(0.1), [many, fewer])[0],
                oracle.descend(x[0], torch.tensor(0.1), [one, one])[0],
            ]
        )
    for first, other in itertools.product(results[:1], results[1:]):
        assert all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_a_row_of_a_stack_does_not_depend_on_the_others() -> None:
    torch.manual_seed(0)
    oracle = NativeOracle(small(), dataset((2, 8, 8), 5))
    x, batch = torch.randn(5, oracle.dimension), uniform(5, 33)
    whole, _ = oracle.gradient(x, batch)
    part, _ = oracle.gradient(x[2:4], Batch(batch.samples[2:4], batch.weights[2:4]))
    assert torch.equal(whole[2:4], part)


def test_difference_of_equal_points_is_exactly_zero() -> None:
    torch.manual_seed(0)
    oracle = NativeOracle(small(), dataset((2, 8, 8), 5))
    x = torch.randn(3, oracle.dimension)
    difference, loss = oracle.difference(x, x, uniform(3, 150))
    assert (difference == 0).all()
    assert (loss > 0).all()


@pytest.mark.parametrize("length", [33, 300])
def test_a_step_is_a_step_along_the_gradient(length: int) -> None:
    """Each model of a stack with its own rate, and a model alone, whose batch may be cut in pieces."""
    torch.manual_seed(0)
    oracle = NativeOracle(small(), dataset((2, 8, 8), 5), threads=2)
    x, batch, eta = torch.randn(3, oracle.dimension), uniform(3, length), torch.tensor([[0.1], [0.0], [2.0]])
    gradient, loss = oracle.gradient(x, batch)
    stepped, loss_there = oracle.step(x, eta, batch)
    assert_near(stepped, x - eta * gradient)
    assert torch.equal(stepped[1], x[1])
    assert torch.equal(loss_there, loss)
    row = Batch(batch.samples[2], batch.weights[2])
    assert_near(oracle.step(x[2], eta[2], row)[0], x[2] - 2.0 * gradient[2])


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("length", [5, 300])
def test_a_descent_is_its_steps_one_after_the_other(length: int, threads: int) -> None:
    """Of a stack and of a model alone, with more threads than models and with fewer."""
    torch.manual_seed(0)
    oracle = NativeOracle(small(), dataset((2, 8, 8), 5), threads)
    x, eta = torch.randn(4, oracle.dimension), torch.tensor([[0.1], [0.0], [0.5], [0.2]])
    batches = [uniform(4, length), uniform(4, 30), uniform(4, length)]
    for rows in (slice(None), 2):
        parts = [Batch(batch.samples[rows], batch.weights[rows]) for batch in batches]
        there, losses = oracle.descend(x[rows], eta[rows], parts)
        at = x[rows]
        for part, loss in zip(parts, losses, strict=True):
            at, seen = oracle.step(at, eta[rows], part)
            assert torch.equal(seen, loss)
        assert torch.equal(there, at)
        assert not torch.equal(there, x[rows])


def test_models_that_start_at_one_point_are_as_good_as_copies_of_it() -> None:
    """A stack of one row shown many times goes the ways of the copies, and the row itself stays as it is."""
    torch.manual_seed(0)
    oracle = NativeOracle(small(), dataset((2, 8, 8), 5), threads=2)
    x, batches = torch.randn(oracle.dimension), [uniform(3, 20), uniform(3, 9)]
    before = x.clone()
    there, losses = oracle.descend(x.expand(3, -1), torch.tensor(0.1), batches)
    copies, losses_there = oracle.descend(x.repeat(3, 1), torch.tensor(0.1), batches)
    assert torch.equal(there, copies)
    assert all(torch.equal(a, b) for a, b in zip(losses, losses_there, strict=True))
    assert torch.equal(x, before)


def test_a_descent_without_steps_stays() -> None:
    oracle = NativeOracle(small(), dataset((2, 8, 8), 5))
    x = torch.ones(2, oracle.dimension)
    there, losses = oracle.descend(x, torch.ones(2, 1), [])
    assert torch.equal(there, x)
    assert losses == []


@pytest.mark.parametrize("length", [33, 300])
def test_a_corrected_estimate_has_the_difference_added(length: int) -> None:
    """For a stack, and for a model alone, whose batch may be cut in pieces: the estimate is counted once."""
    torch.manual_seed(0)
    oracle = NativeOracle(small(), dataset((2, 8, 8), 5), threads=2)
    g, x, previous = torch.randn(3, 3, oracle.dimension).unbind()
    batch = uniform(3, length)
    difference, loss = oracle.difference(x, previous, batch)
    corrected, loss_there = oracle.corrected(g, x, previous, batch)
    assert_near(corrected, g + difference)
    assert torch.equal(loss_there, loss)
    row = Batch(batch.samples[2], batch.weights[2])
    assert_near(oracle.corrected(g[2], x[2], previous[2], row)[0], g[2] + difference[2])
    empty = Batch(batch.samples, torch.zeros_like(batch.weights))
    assert torch.equal(oracle.corrected(g, x, previous, empty)[0], g)


def test_nan_stays_visible() -> None:
    """One NaN among the inputs: it must not be lost in ReLU or pooling."""
    torch.manual_seed(0)
    data = dataset((2, 8, 8), 5)
    data.inputs[3, 0, 2, 2] = math.nan
    oracle = NativeOracle(small(), data)
    x = torch.randn(oracle.dimension)
    assert oracle.loss(x, Batch(torch.tensor([3, 4]), torch.tensor([0.5, 0.5]))).isnan()
    assert oracle.loss(x, Batch(torch.tensor([3, 4]), torch.tensor([0.0, 1.0]))).isfinite()


def test_a_batch_of_padding_alone_contributes_nothing() -> None:
    oracle = NativeOracle(small(), dataset((2, 8, 8), 5))
    gradient, loss = oracle.gradient(torch.ones(oracle.dimension), Batch(torch.zeros(4).long(), torch.zeros(4)))
    assert not gradient.any()
    assert loss == 0


def test_a_layer_so_wide_that_its_square_overflows_32_bits() -> None:
    """Tiles are cut at count · part / parts, which passes 2³¹ from about 113,512 outputs on."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(2, 120_000), nn.ReLU(), nn.Linear(120_000, 2))
    inputs, targets = torch.randn(4, 2), torch.tensor([0, 1, 1, 0])
    oracle = NativeOracle(model, Dataset("wide", inputs, targets, inputs, targets, classes=2))
    x = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    gradient, loss = oracle.gradient(x, Batch(torch.arange(4), torch.full((4,), 0.25)))
    expected = F.cross_entropy(model(inputs), targets)
    (last,) = torch.autograd.grad(expected, model[3].weight)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert torch.allclose(gradient[-240_002:-2], last.flatten(), atol=1e-5)
