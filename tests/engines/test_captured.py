"""Gradients in shared memory, as a GPU replays them; on a CPU they are computed anew each time."""

import torch

from fedamd.engines.base import RecordingGradient
from fedamd.engines.captured import CapturedOracle, rounded_up
from fedamd.models import Logistic
from fedamd.oracles.autograd import AutogradOracle
from fedamd.oracles.base import Batch


def test_rows_are_rounded_up_by_a_quarter_at_most():
    rounded = [rounded_up(rows) for rows in range(1, 300)]
    assert rounded[:16] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 10, 12, 12, 14, 14, 16, 16]
    assert all(rows <= up <= 1.25 * rows for rows, up in enumerate(rounded, start=1))
    assert rounded == sorted(rounded)


def test_results_are_the_oracles_and_outlive_the_next_call(labelled):
    """Stacks of three rows and then of two, in the memory that the first one took."""
    oracle = AutogradOracle(Logistic(3, 0.1).double(), labelled)
    wrapped = CapturedOracle(oracle)
    torch.manual_seed(0)
    x, previous = torch.randn(2, 3, oracle.dimension, dtype=torch.float64)
    batch = Batch(torch.tensor([[0, 1], [2, 3], [4, 5]]), torch.full((3, 2), 0.5, dtype=torch.float64))
    few = Batch(batch.samples[1:], batch.weights[1:])
    gradient, loss = wrapped.gradient(x, batch)
    eta = torch.tensor([[0.1], [0.2]], dtype=torch.float64)
    step, _ = wrapped.step(x[1:], eta, few)
    g = torch.ones_like(x)
    corrected, _ = wrapped.corrected(g, x, previous, batch)
    expected, its_loss = oracle.gradient(x, batch)
    torch.testing.assert_close(gradient, expected)
    torch.testing.assert_close(loss, its_loss)
    torch.testing.assert_close(step, x[1:] - eta * expected[1:])
    torch.testing.assert_close(corrected, g + expected - oracle.gradient(previous, batch)[0])
    assert (len(wrapped), wrapped.captures) == (2, 2)


def test_steps_in_place_are_the_steps(labelled):
    """The same numbers, whether the models are brought back after every step or after the last."""
    oracle = AutogradOracle(Logistic(3, 0.1).double(), labelled)
    wrapped = CapturedOracle(oracle)
    torch.manual_seed(0)
    x, eta = torch.randn(2, oracle.dimension, dtype=torch.float64), torch.tensor([[0.1], [0.2]], dtype=torch.float64)
    weights = torch.full((2, 2), 0.5, dtype=torch.float64)
    batches = [Batch(torch.tensor([[i, 1], [2, i]]), weights) for i in range(3)]
    start = x.clone()
    final, losses = wrapped.descend(x, eta, batches)
    assert torch.equal(x, start)
    for batch, loss in zip(batches, losses, strict=True):
        x, expected = wrapped.step(x, eta, batch)
        assert torch.equal(loss, expected)
    assert torch.equal(final, x)


def test_a_role_that_descends_has_the_losses_of_all_its_steps(labelled):
    oracle = AutogradOracle(Logistic(3, 0.1).double(), labelled)
    torch.manual_seed(0)
    x, eta = torch.randn(2, oracle.dimension, dtype=torch.float64), torch.tensor([[0.1], [0.2]], dtype=torch.float64)
    weights = torch.full((2, 2), 0.5, dtype=torch.float64)
    batches = [Batch(torch.tensor([[i, 1], [2, i]]), weights) for i in range(3)]
    at_once, one_by_one = RecordingGradient(CapturedOracle(oracle)), RecordingGradient(oracle)
    torch.testing.assert_close(at_once.descend(x, eta, batches), one_by_one.descend(x, eta, batches))
    torch.testing.assert_close(at_once.mean_loss(), one_by_one.mean_loss())


def test_the_shape_not_used_for_longest_is_forgotten(labelled):
    oracle = AutogradOracle(Logistic(3, 0.1).double(), labelled)
    wrapped = CapturedOracle(oracle, most_graphs=2)
    wrapped.reserve(1, torch.zeros(1, oracle.dimension, dtype=torch.float64))
    x = torch.zeros(1, oracle.dimension, dtype=torch.float64)
    for width in (1, 2, 1, 3, 1, 2):  # 2 goes when 3 comes, 3 when 2 comes back
        wrapped.gradient(x, Batch(torch.zeros(1, width, dtype=torch.int64), torch.ones(1, width, dtype=x.dtype)))
    assert (len(wrapped), wrapped.captures) == (2, 4)
