"""A model as a function of one flat vector: which loss it has, and what counts as right."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedamd.errors import FedamdError
from fedamd.models import Logistic, Quadratic
from fedamd.oracles.objective import Objective, flat_parameters, load_parameters, own_copy


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
    assert objective.right(outputs, torch.tensor([1, 0])) == (1, 2)


def test_what_counts_as_right():
    objective = Objective(nn.Linear(1, 3), 3)
    scores = torch.tensor([[0.1, 0.9, 0.0], [2.0, 1.0, 3.0]])
    assert objective.right(scores, torch.tensor([1, 0])) == (1, 2)
    assert Objective(nn.Linear(1, 1), 0).right(torch.zeros(2, 1), torch.zeros(2)) == (0, 0)


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_a_single_output_is_the_logit_of_class_1(shape):
    """Logits 2, −1, 3, −4 for the classes 1, 1, 0, 0: the first and the last are right."""

    class Given(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.logits = nn.Parameter(torch.tensor([2.0, -1.0, 3.0, -4.0]).reshape(shape))

        def forward(self, inputs):
            return self.logits + 0 * inputs.sum()

    model, labels = Given(), torch.tensor([1, 1, 0, 0])
    objective = Objective(model, 2)
    losses, outputs = objective.at(flat_parameters(model), torch.zeros(4, 1), labels)
    torch.testing.assert_close(losses, F.softplus(torch.tensor([-2.0, 1.0, 3.0, -4.0])))
    assert objective.right(outputs, labels) == (2, 4)
    with pytest.raises(FedamdError, match="one output, a logit, where the data have 3 classes"):
        Objective(model, 3).at(flat_parameters(model), torch.zeros(4, 1), labels)


def test_targets_per_token_are_averaged_over_those_that_are_real():
    """Scores log 3 : 0 of two classes: right costs log 4/3, wrong log 4. The last sample has nothing to predict."""
    embedding = nn.Embedding(2, 2)
    with torch.no_grad():
        embedding.weight.copy_(torch.tensor([[3.0, 1.0], [1.0, 3.0]]).log())
    tokens = torch.tensor([[0, 0, 1], [1, 1, 1], [0, 1, 0]])
    targets = torch.tensor([[0, 1, 1], [1, -100, -100], [-100, -100, -100]])
    objective = Objective(embedding, 2)
    losses, outputs = objective.at(flat_parameters(embedding), tokens, targets)
    right, wrong = torch.tensor(4 / 3).log(), torch.tensor(4.0).log()
    torch.testing.assert_close(losses, torch.stack([(2 * right + wrong) / 3, right, torch.tensor(0.0)]))
    assert objective.right(outputs, targets) == (3, 4)


def test_scores_in_another_axis_than_the_last_are_refused():
    with pytest.raises(FedamdError, match=r"\(2, 5, 3\) for targets of shape \(2, 3\): it must give \(2, 3, 5\)"):
        Objective(nn.Conv1d(1, 5, 1), 5).at(torch.zeros(10), torch.zeros(2, 1, 3), torch.zeros(2, 3).long())


def frozen_features() -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    model[2].bias.requires_grad_(False)
    return model


def test_only_what_can_be_trained_is_in_x():
    model = frozen_features()
    assert torch.equal(flat_parameters(model), model[2].weight.flatten())
    objective = Objective(model, 2)
    assert objective.dimension == 8
    inputs = torch.randn(5, 3)
    outputs = objective.at(torch.zeros(8), inputs, torch.zeros(5).long())[1]
    torch.testing.assert_close(outputs, model[2].bias.expand(5, 2))
    before = [parameter.clone() for parameter in (*model[0].parameters(), model[2].bias)]
    load_parameters(model, torch.ones(8))
    assert torch.equal(model[2].weight, torch.ones(2, 4))
    assert all(torch.equal(a, b) for a, b in zip(before, (*model[0].parameters(), model[2].bias), strict=True))


def test_frozen_parameters_are_shared_not_copied():
    model = frozen_features()
    assert Objective(model, 2).model[0].weight is model[0].weight


def test_a_copy_of_ones_own_shares_nothing():
    model = frozen_features()
    twin = own_copy(model)
    load_parameters(twin, torch.ones(8))
    assert not torch.equal(model[2].weight, twin[2].weight)
    assert not twin[0].weight.requires_grad
    assert twin[0].weight is not model[0].weight


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_a_weight_that_a_hook_derives_can_be_copied_and_is_left_alone():
    model = nn.utils.weight_norm(nn.Linear(3, 2))
    before = model.weight
    objective = Objective(own_copy(model), 2)
    assert objective.dimension == 6 + 2 + 2
    Objective(model, 2).at(torch.zeros(10) + 0.1, torch.zeros(1, 3), torch.zeros(1).long())
    assert model.weight is before


class OwnLoss(nn.Linear):
    def __init__(self, loss) -> None:
        super().__init__(2, 3)
        self.loss = loss


@pytest.mark.parametrize(
    ("loss", "gave"),
    [
        (nn.CrossEntropyLoss(), r"shape \(\)"),
        (lambda outputs, _: outputs[:, :1], r"shape \(3, 1\)"),
        (lambda outputs, targets: F.cross_entropy(outputs, targets).item(), "a float"),
    ],
)
def test_a_loss_that_is_not_one_number_a_sample_is_refused_in_words(loss, gave):
    objective = Objective(OwnLoss(loss), 3)
    with pytest.raises(FedamdError, match=rf"has (the )?{gave} for a batch of 3 samples: it must be one number a"):
        objective.rehearse(torch.zeros(3, 2), torch.zeros(3).long())
    Objective(OwnLoss(nn.CrossEntropyLoss(reduction="none")), 3).rehearse(torch.zeros(3, 2), torch.zeros(3).long())


class Careless(nn.Linear):
    def forward(self, inputs):
        return F.dropout(super().forward(inputs), 0.5, self.training)


def test_random_numbers_drawn_in_forward_are_found():
    objective = Objective(Careless(2, 3), 3)
    state = torch.get_rng_state()
    with pytest.raises(FedamdError, match=r"Careless draws random numbers.*nn\.Dropout layers"):
        objective.rehearse(torch.zeros(3, 2), torch.zeros(3).long())
    assert torch.equal(torch.get_rng_state(), state)


def test_what_fails_is_said_with_shapes():
    with pytest.raises(FedamdError, match=r"Linear fails on inputs of shape \(3, 5\).*RuntimeError"):
        Objective(nn.Linear(2, 3), 3).rehearse(torch.zeros(3, 5), torch.zeros(3).long())


class Counting(nn.Linear):
    """Scales its outputs by how often it was called, in a buffer changed in place and in one put anew."""

    def __init__(self) -> None:
        super().__init__(2, 3)
        self.register_buffer("calls", torch.ones(()))
        self.register_buffer("again", torch.ones(()))
        self.register_buffer("constant", torch.ones(()))

    def forward(self, inputs):
        self.calls += 1
        self.again = self.again + 1
        return super().forward(inputs) * self.calls * self.again * self.constant


def test_a_buffer_that_changes_is_a_constant_here(caplog):
    model = Counting()
    objective = Objective(model, 3)
    inputs, labels = torch.randn(3, 2), torch.zeros(3).long()
    objective.rehearse(inputs, labels)
    assert [message.split()[2] for message in caplog.messages] == ["calls", "again"]
    first, again = (objective.at(flat_parameters(model), inputs, labels)[1] for _ in range(2))
    assert torch.equal(first, again)
    torch.testing.assert_close(first, 4 * F.linear(inputs, model.weight, model.bias))
    assert model.calls == model.again == 1
