"""A model as a function of one flat vector: which loss it has, and what counts as right."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedamd.models import Logistic, Quadratic
from fedamd.oracles.objective import Objective, flat_parameters, load_parameters


def test_the_flat_vector_is_the_parameters_in_order():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    x = flat_parameters(model)
    assert torch.equal(x[:6], model[0].weight.flatten())
    assert torch.equal(x[6:9], model[0].bias)
    assert x.numel() == 13
    load_parameters(model, torch.arange(13.0))
    assert model[0].weight.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert model[1].bias.tolist() == [12]


def test_the_objective_is_taken_at_x_and_leaves_the_model_alone():
    model = nn.Linear(2, 2)
    before = flat_parameters(model)
    inputs, targets = torch.tensor([[1.0, 2.0]]), torch.tensor([1])
    losses, outputs = Objective(model, 2).at(torch.tensor([1.0, 0, 0, 1, 5, 6]), inputs, targets)
    assert outputs.tolist() == [[6, 8]]
    assert losses.item() == pytest.approx(F.cross_entropy(torch.tensor([[6.0, 8.0]]), targets).item())
    assert torch.equal(flat_parameters(model), before)


def test_a_shared_parameter_counts_once():
    layer = nn.Linear(2, 2, bias=False)
    objective = Objective(nn.Sequential(layer, layer), 2)
    assert objective.dimension == 4
    _, outputs = objective.at(torch.tensor([0.0, 2, 2, 0]), torch.tensor([[1.0, 3.0]]), torch.tensor([0]))
    assert outputs.tolist() == [[4, 12]]  # twice the swap-and-double


@pytest.mark.parametrize(
    ("outputs", "targets"),
    [
        ((4, 1), (4,)),  # the usual regression network: one output a sample, targets without that axis
        ((4,), (4,)),
        ((4, 3), (4, 3)),
        ((4, 2, 3), (4, 2, 3)),
    ],
)
def test_without_classes_the_loss_is_half_the_squared_error(outputs, targets):
    """ℓ_j = ½ Σ_i (o_ji − y_ji)², sample by sample: no sample meets another's target."""

    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.values = nn.Parameter(torch.randn(outputs, generator=torch.Generator().manual_seed(0)))

        def forward(self, inputs):
            return self.values + 0 * inputs.sum()

    model = Constant()
    wanted = torch.randn(targets, generator=torch.Generator().manual_seed(1))
    losses, _ = Objective(model, 0).at(flat_parameters(model), torch.zeros(4, 1), wanted)
    expected = [0.5 * (o - y).square().sum() for o, y in zip(model.values.reshape(targets), wanted, strict=True)]
    torch.testing.assert_close(losses, torch.stack(expected))


def test_a_models_own_loss_is_used():
    """Quadratic: ½·h·(x − z)² with z = 1, h = 2 and z = −1, h = 1 at x = 3: 4 and 8."""
    inputs = torch.tensor([[[1.0], [2.0]], [[-1.0], [1.0]]])
    losses, _ = Objective(Quadratic(1), 0).at(torch.tensor([3.0]), inputs, torch.zeros(2))
    torch.testing.assert_close(losses, torch.tensor([4.0, 8.0]))


def test_the_logistic_model_by_hand():
    """x = (1, −2), z = (3, 1): zᵀx = 1. y = +1: log(1 + e^−1); y = −1: log(1 + e); plus ½·0.1·5."""
    x = torch.tensor([1.0, -2.0], dtype=torch.float64)
    inputs = torch.tensor([[3.0, 1.0], [3.0, 1.0]], dtype=torch.float64)
    objective = Objective(Logistic(2, 0.1).double(), 2)
    losses, outputs = objective.at(x, inputs, torch.tensor([1, 0]))
    one = torch.ones((), dtype=torch.float64)
    torch.testing.assert_close(losses, torch.stack([(-one).exp().log1p(), one.exp().log1p()]) + 0.25)
    assert objective.correct(outputs, torch.tensor([1, 0])).tolist() == [1, 0]


def test_what_counts_as_right():
    objective = Objective(nn.Linear(1, 3), 3)
    scores = torch.tensor([[0.1, 0.9, 0.0], [2.0, 1.0, 3.0]])
    assert objective.correct(scores, torch.tensor([1, 0])).tolist() == [1, 0]
    assert Objective(nn.Linear(1, 1), 0).correct(torch.zeros(2, 1), torch.zeros(2)).isnan().all()
