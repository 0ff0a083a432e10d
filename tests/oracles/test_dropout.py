"""Masks of dropout are functions of samples' keys: the same alone, in a stack and in parts, and none in evaluation."""

import pytest
import torch
from torch import nn

from fedamd.data.base import Dataset
from fedamd.errors import FedamdError
from fedamd.oracles.autograd import AutogradOracle
from fedamd.oracles.base import Batch
from fedamd.oracles.objective import Objective, flat_parameters

KEYS = torch.tensor([11, -7, 2**62, 5])


def outputs(model: nn.Module, inputs: torch.Tensor, keys: torch.Tensor | None, training: bool = True) -> torch.Tensor:
    objective = Objective(model, 0)
    return objective.at(flat_parameters(model), inputs, inputs.new_zeros(len(inputs), 1), keys, training)[1]


class Unchanged(nn.Module):
    """Its parameter is added nowhere near its outputs, which are those of the layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, inputs):
        return self.layer(inputs)

    def loss(self, outputs, targets):  # noqa: ARG002
        return outputs.flatten(1).sum(1)


def test_what_is_kept_is_scaled_and_the_share_is_p():
    dropped = outputs(Unchanged(nn.Dropout(0.25)), torch.ones(4, 5000), KEYS)
    assert set(dropped.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    shares = (dropped == 0).double().mean(1)
    assert (shares - 0.25).abs().max() < 0.03  # five standard deviations of 5000 draws
    assert len({tuple(row) for row in dropped.tolist()}) == 4  # every sample has its own


def test_a_sample_has_its_mask_wherever_it_lies():
    model, inputs = Unchanged(nn.Dropout(0.5)), torch.randn(4, 50)
    whole = outputs(model, inputs, KEYS)
    order = torch.tensor([2, 0, 3, 1])
    assert torch.equal(outputs(model, inputs[order], KEYS[order]), whole[order])
    assert torch.equal(outputs(model, inputs[1:2], KEYS[1:2]), whole[1:2])


def test_every_use_of_dropout_has_masks_of_its_own():
    """Two layers, and one layer used twice: with equal masks what is kept once would be kept twice."""
    layer = nn.Dropout(0.5)
    for model in (nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5)), nn.Sequential(layer, layer)):
        kept = (outputs(Unchanged(model), torch.ones(4, 2000), KEYS) != 0).double().mean()
        assert kept == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.Dropout1d(0.5), (4, 30, 7)), (nn.Dropout2d(0.5), (4, 30, 3, 2)), (nn.Dropout3d(0.5), (4, 30, 2, 2, 2))],
)
def test_channels_are_dropped_whole(layer, shape):
    channels = outputs(Unchanged(layer), torch.ones(shape), KEYS).flatten(2)
    assert torch.equal(channels, channels[:, :, :1].expand_as(channels))
    assert 0 < (channels[:, :, 0] == 0).sum() < 4 * 30


def test_nothing_is_dropped_in_evaluation_nor_in_a_part_that_stays_in_it():
    inputs = torch.randn(4, 9)
    assert torch.equal(outputs(Unchanged(nn.Dropout(0.5)), inputs, None, training=False), inputs)
    fixed = Unchanged(nn.Dropout(0.5))
    fixed.layer.eval()
    assert torch.equal(outputs(fixed, inputs, KEYS), inputs)
    all_of_it = outputs(Unchanged(nn.Dropout(0.5)).eval(), inputs, KEYS)  # as a whole it is trained as a whole
    assert not torch.equal(all_of_it, inputs)


def test_everything_can_be_dropped():
    assert not outputs(Unchanged(nn.Dropout(1.0)), torch.ones(4, 3), KEYS).any()


def test_the_users_model_keeps_its_own_layer():
    model = Unchanged(nn.Dropout(0.5))
    objective = Objective(model, 0)
    assert objective.keyed
    assert type(model.layer) is nn.Dropout
    assert not Objective(Unchanged(nn.Dropout(0.0)), 0).keyed


def test_values_whose_first_axis_is_not_the_batch_are_refused():
    class Turned(Unchanged):
        def forward(self, inputs):
            return self.layer(inputs.T).T

    with pytest.raises(FedamdError, match=r"dropout 'layer' is given values of shape \(9, 4\) in a batch of 4"):
        outputs(Turned(nn.Dropout(0.5)), torch.ones(4, 9), KEYS)
    with pytest.raises(FedamdError, match="dropout 'layer' needs the keys"):
        outputs(Unchanged(nn.Dropout(0.5)), torch.ones(4, 9), None)


def test_a_stack_is_its_rows():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Dropout2d(0.3), nn.Flatten(), nn.Dropout(0.5))
    model = nn.Sequential(network, nn.Linear(64, 3)).double()
    inputs, labels = torch.randn(12, 1, 6, 6, dtype=torch.float64), torch.arange(12) % 3
    oracle = AutogradOracle(model, Dataset("images", inputs, labels, inputs, labels, 3))
    assert oracle.keyed
    assert oracle.cannot_stack() is None
    x = torch.stack([flat_parameters(model), 2 * flat_parameters(model)])
    samples, keys = torch.tensor([[0, 3, 5], [2, 3, 9]]), torch.tensor([[7, 8, 9], [1, 8, 3]])
    weights = torch.full((2, 3), 1 / 3, dtype=torch.float64)
    gradients, losses = oracle.gradient(x, Batch(samples, weights, keys))
    for row in range(2):
        gradient, loss = oracle.gradient(x[row], Batch(samples[row], weights[row], keys[row]))
        torch.testing.assert_close(gradients[row], gradient, rtol=0, atol=1e-14)
        torch.testing.assert_close(losses[row], loss, rtol=0, atol=1e-14)
    other, _ = oracle.gradient(x, Batch(samples, weights, keys + 1))
    assert not torch.allclose(other, gradients)
