"""The oracle for stacks of residual networks agrees with automatic differentiation, one model at a time."""

import torch
from torch import nn

from fedamd.data.base import Dataset
from fedamd.engines.captured import CapturedOracle
from fedamd.oracles.autograd import AutogradOracle
from fedamd.oracles.base import Batch
from fedamd.oracles.stacked.graph_oracle import GraphOracle
from residual import Residual


def data() -> Dataset:
    torch.manual_seed(1)
    images, labels = torch.randn(20, 2, 9, 8, dtype=torch.float64), torch.randint(3, (20,))
    return Dataset("random", images, labels, images[:7], labels[:7], classes=3)


def test_rows_of_a_stack_are_the_models_alone() -> None:
    torch.manual_seed(0)
    model, problem = Residual().double(), data()
    oracle, truth = GraphOracle(model, problem), AutogradOracle(model, problem)
    x = torch.randn(3, oracle.dimension, dtype=torch.float64)
    batch = Batch(torch.randint(20, (3, 4)), torch.rand(3, 4, dtype=torch.float64))
    gradients, losses = oracle.gradient(x, batch)
    torch.testing.assert_close(oracle.loss(x, batch), losses)
    for row in range(3):
        gradient, loss = truth.gradient(x[row], Batch(batch.samples[row], batch.weights[row]))
        torch.testing.assert_close(gradients[row], gradient, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(losses[row], loss)
    torch.testing.assert_close(oracle.evaluate(x), truth.evaluate(x))


def test_steps_of_packed_models_are_the_steps() -> None:
    """Parameters that cannot matter stay as they are, and the recursive estimator leaves theirs alone."""
    torch.manual_seed(0)
    model, problem = Residual().double(), data()
    oracle, truth = CapturedOracle(GraphOracle(model, problem)), AutogradOracle(model, problem)
    x, previous, g = torch.randn(3, 2, truth.dimension, dtype=torch.float64)
    batches = [Batch(torch.randint(20, (2, 4)), torch.rand(2, 4, dtype=torch.float64)) for _ in range(2)]
    eta = torch.tensor([[0.01], [0.02]], dtype=torch.float64)
    expected = x
    for batch in batches:
        expected = expected - eta * truth.gradient(expected, batch)[0]
    torch.testing.assert_close(oracle.descend(x, eta, batches)[0], expected, rtol=1e-9, atol=1e-9)
    corrected, loss = oracle.corrected(g, x, previous, batches[0])
    difference, its_loss = truth.difference(x, previous, batches[0])
    torch.testing.assert_close(corrected, g + difference, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(loss, its_loss)
    torch.testing.assert_close(oracle.gradient(x, batches[0])[0], truth.gradient(x, batches[0])[0])


def test_what_it_cannot_take_is_said() -> None:
    problem = data()
    assert GraphOracle.unsupported(Residual().double(), problem) is None
    hooked = Residual().double()
    hooked.stem.register_forward_hook(lambda *_: None)
    assert "hooks" in (GraphOracle.unsupported(hooked, problem) or "")
    assert "Sigmoid" in (
        GraphOracle.unsupported(nn.Sequential(nn.Flatten(), nn.Sigmoid(), nn.Linear(144, 3)).double(), problem) or ""
    )
