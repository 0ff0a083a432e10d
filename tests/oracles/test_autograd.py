"""The reference oracle: against finite differences, one model against a stack, weights and padding, the test set."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from fedamd.data.augment import FlipCrop
from fedamd.data.base import Dataset
from fedamd.models import Logistic
from fedamd.oracles import autograd
from fedamd.oracles.autograd import AutogradOracle
from fedamd.oracles.base import Batch


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(12, 1, 6, 6, generator=random, dtype=torch.float64)
    targets = torch.randint(3, (12,), generator=random)
    return Dataset("toy", inputs, targets, inputs[:7], targets[:7], classes=3)


@pytest.fixture(scope="module")
def oracle(dataset) -> AutogradOracle:
    """A network with everything that bends: convolution, tanh, pooling, softmax."""
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8, 3)).double()
    return AutogradOracle(network, dataset)


def point(oracle: AutogradOracle, *rows: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(1)
    return 0.3 * torch.randn(*rows, oracle.dimension, generator=random, dtype=torch.float64)


def batch(samples, weights=None) -> Batch:
    samples = torch.tensor(samples)
    even = torch.full(samples.shape, 1 / samples.shape[-1], dtype=torch.float64)
    return Batch(samples, even if weights is None else torch.tensor(weights, dtype=torch.float64))


def test_gradients_are_the_slopes_of_the_loss(oracle):
    """Central differences with h = 1e-5: an error of h² times the third derivative, and 1e-16/h of rounding."""
    x, where = point(oracle), batch([0, 3, 5], [0.5, 0.2, 0.3])
    gradient, loss = oracle.gradient(x, where)
    h = 1e-5
    steps = h * torch.eye(oracle.dimension, dtype=torch.float64)
    slopes = [(oracle.loss(x + step, where) - oracle.loss(x - step, where)) / (2 * h) for step in steps]
    torch.testing.assert_close(gradient, torch.stack(slopes), rtol=0, atol=1e-8)
    assert loss.item() == oracle.loss(x, where).item()
    assert gradient.abs().max() > 1e-2
    assert not gradient.requires_grad
    assert not loss.requires_grad


def test_a_stack_is_its_rows(oracle):
    xs = point(oracle, 3)
    stack = batch([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]])
    gradients, losses = oracle.gradient(xs, stack)
    differences, at = oracle.difference(xs, xs.flip(0), stack)
    for row in range(3):
        own = Batch(stack.samples[row], stack.weights[row])
        gradient, loss = oracle.gradient(xs[row], own)
        torch.testing.assert_close(gradients[row], gradient, rtol=0, atol=1e-14)
        torch.testing.assert_close(losses[row], loss, rtol=0, atol=1e-14)
        torch.testing.assert_close(oracle.loss(xs, stack)[row], loss, rtol=0, atol=1e-14)
        difference, _ = oracle.difference(xs[row], xs[2 - row], own)
        torch.testing.assert_close(difference, gradient - oracle.gradient(xs[2 - row], own)[0], rtol=0, atol=1e-14)
        torch.testing.assert_close(differences[row], difference, rtol=0, atol=1e-14)
        torch.testing.assert_close(at[row], loss, rtol=0, atol=1e-14)


def test_padding_contributes_nothing_and_weights_are_weights(oracle):
    x = point(oracle)
    padded, loss = oracle.gradient(x, batch([2, 7, 0, 0], [0.25, 0.75, 0, 0]))
    first, first_loss = oracle.gradient(x, batch([2]))
    second, second_loss = oracle.gradient(x, batch([7]))
    torch.testing.assert_close(padded, 0.25 * first + 0.75 * second, rtol=0, atol=1e-14)
    torch.testing.assert_close(loss, 0.25 * first_loss + 0.75 * second_loss, rtol=0, atol=1e-14)


def test_the_test_set_is_seen_whole_in_chunks(oracle, dataset, monkeypatch):
    """Seven samples in chunks of three, for one model and for a stack."""
    xs = point(oracle, 2)
    monkeypatch.setattr(autograd, "_TEST_CHUNK", 3)
    losses, accuracies = oracle.evaluate(xs)
    assert losses.shape == accuracies.shape == (2,)
    for x, loss, accuracy in zip(xs, losses, accuracies, strict=True):
        per_sample = [oracle.loss(x, batch([j])) for j in range(7)]  # the test set is the first seven samples
        torch.testing.assert_close(loss, torch.stack(per_sample).mean(), rtol=0, atol=1e-14)
        outputs = oracle._objective.at(x, dataset.test_inputs, dataset.test_targets)[1]
        right = sum(int(row.argmax()) == int(t) for row, t in zip(outputs, dataset.test_targets, strict=True))
        assert accuracy.item() == pytest.approx(right / 7, abs=1e-7)
        alone = oracle.evaluate(x)
        assert torch.equal(alone[0], loss)
        assert torch.equal(alone[1], accuracy)


@pytest.mark.parametrize("rows", [1, 2])
def test_losses_of_normalised_images_whose_channels_come_last_in_memory(rows, dataset):
    """As augmentation leaves them: where nothing is differentiated, vmap over one row does not take them."""
    images = torch.cat([dataset.inputs, -dataset.inputs], 1)
    augmented = replace(dataset, inputs=images, augment=FlipCrop((0.0, 0.0), padding=1))
    network = nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(64, 3)).double()
    oracle = AutogradOracle(network, augmented)
    xs, plain = point(oracle, rows), batch([[0, 1, 2], [3, 4, 5]][:rows])
    keyed = replace(plain, keys=7 * plain.samples)
    torch.testing.assert_close(oracle.loss(xs, keyed), oracle.gradient(xs, keyed)[1])


def test_data_without_classes_has_no_accuracy():
    inputs, targets = torch.randn(5, 2, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    oracle = AutogradOracle(nn.Linear(2, 1).double(), Dataset("line", inputs, targets, inputs, targets, classes=0))
    x = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    loss, accuracy = oracle.evaluate(x)
    residual = inputs @ x[:2] + 0.5 - targets
    assert loss.item() == pytest.approx(0.5 * residual.square().mean().item())
    assert accuracy.isnan()
    gradient, _ = oracle.gradient(x.unsqueeze(0), Batch(torch.arange(5).unsqueeze(0), torch.full((1, 5), 0.2).double()))
    expected = torch.cat([(residual.unsqueeze(-1) * inputs).mean(0), residual.mean().reshape(1)])
    torch.testing.assert_close(gradient[0], expected)


def test_the_logistic_gradient_by_its_formula(dataset):
    """∇ = −y·z/(1 + exp(y·zᵀx)) + reg·x, averaged."""
    flat = Dataset("flat", dataset.inputs.flatten(1), dataset.targets.clamp(max=1), *[dataset.inputs] * 2, classes=2)
    oracle = AutogradOracle(Logistic(36, 0.3).double(), flat)
    x = point(oracle)
    where = batch(list(range(12)))
    y = 2.0 * flat.targets - 1
    expected = (-y / (1 + (y * (flat.inputs @ x)).exp())) @ flat.inputs / 12 + 0.3 * x
    torch.testing.assert_close(oracle.gradient(x, where)[0], expected, rtol=0, atol=1e-14)
