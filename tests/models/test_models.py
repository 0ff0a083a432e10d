"""Models by name fit their data; a user's own are built by name too; what cannot be trained is refused."""

import sys
import textwrap

import pytest
import torch
from torch import nn

from fedamd import models
from fedamd.data.base import Dataset
from fedamd.errors import FedamdError
from fedamd.oracles.objective import Objective, flat_parameters


def data_of(*shape: int, classes: int = 10) -> Dataset:
    inputs = torch.zeros(4, *shape)
    targets = torch.zeros(4, dtype=torch.int64)
    return Dataset("toy", inputs, targets, inputs, targets, classes=classes)


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("lenet5", {}, 44_426),  # 156 + 2,416 + 30,840 + 10,164 + 850
        ("mlp", {}, 79_510),  # 784·100 + 100 + 100·10 + 10
        ("mlp", {"hidden": 7}, 784 * 7 + 7 + 70 + 10),
        ("softmax", {}, 7_850),
    ],
)
def test_parameter_counts_on_28_by_28_images_of_ten_classes(name, options, count):
    model = models.build(name, data_of(1, 28, 28), **options)
    assert parameters(model) == flat_parameters(model).numel() == count
    assert model(torch.zeros(3, 1, 28, 28)).shape == (3, 10)


@pytest.mark.parametrize("shape", [(1, 16, 16), (1, 18, 18), (3, 19, 26), (3, 32, 32), (2, 33, 17)])
def test_lenet5_fits_images_of_any_size(shape):
    """Odd extents too: pooling drops the last row, twice."""
    assert models.build("lenet5", data_of(*shape, classes=4))(torch.zeros(2, *shape)).shape == (2, 4)


def test_convex_models_have_the_dimension_of_their_data():
    assert parameters(models.build("logistic", data_of(6, classes=2))) == 6
    assert parameters(models.build("quadratic", data_of(2, 5, classes=0))) == 5


@pytest.mark.parametrize(
    ("name", "shape", "classes", "options", "says"),
    [
        ("lenet5", (1, 8, 8), 10, {}, r"at least 16 × 16 pixels, and toy has inputs of shape \(1, 8, 8\)"),
        ("lenet5", (784,), 10, {}, "at least 16 × 16"),
        ("softmax", (4,), 0, {}, "softmax classifies, and toy has no classes"),
        ("softmax", (4,), 0, {}, "softmax classifies"),
        ("mlp", (4,), 2, {"hidden": 0}, "model.hidden must be a whole number of at least 1, not 0"),
        ("mlp", (4,), 2, {"hidden": 2.5}, "model.hidden must be a whole number"),
        ("mlp", (4,), 2, {"hiden": 3}, r"no option hiden \(did you mean hidden\?\)"),
        ("logistic", (4,), 3, {}, "for two classes, and toy has 3; use softmax"),
        ("logistic", (4,), 2, {"regularisation": "much"}, "model.regularisation must be a number of at least 0"),
        ("logistic", (4,), 2, {"regularisation": -1.0}, "model.regularisation must be a number of at least 0"),
        ("quadratic", (4,), 0, {}, "quadratic goes with data quadratic"),
        ("lenet", (1, 28, 28), 10, {}, r"model.name: there is no 'lenet' \(did you mean lenet5\?\)"),
    ],
)
def test_what_does_not_fit_is_refused(name, shape, classes, options, says):
    with pytest.raises(FedamdError, match=says):
        models.build(name, data_of(*shape, classes=classes), **options)


# --- a user's own ---


@pytest.fixture
def own_module(tmp_path, monkeypatch) -> str:
    """A module in the current folder that nobody has put on the path."""
    name = f"own_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(
        textwrap.dedent(
            """
            from torch import nn
            number = 3
            def net(width, depth=1): return nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)))
            def anything(**options): return nn.Linear(len(options), 1)
            def wrong(): return "a string"
            """
        )
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


def test_a_users_factory(own_module):
    assert parameters(models.build(f"{own_module}:net", data_of(4), width=4, depth=2)) == 40
    assert parameters(models.build(f"{own_module}:anything", data_of(4), a=1, b=2)) == 3


@pytest.mark.parametrize(
    ("factory", "options", "says"),
    [
        ("{own}:net", {}, "needs the option width"),
        ("{own}:net", {"width": 2, "height": 3}, "has no option height; it takes width, depth"),
        ("{own}:nett", {}, r"has no 'nett' \(did you mean net\?\)"),
        ("{own}:number", {}, "is a int, not a function that makes a model"),
        ("{own}:wrong", {}, "returned a str, not a torch.nn.Module"),
        ("no_such_module_here:net", {}, "cannot import no_such_module_here"),
        ("{own}:", {}, "not of the form package.module:name"),
        (":net", {}, "not of the form package.module:name"),
    ],
)
def test_a_factory_that_cannot_be_used_is_refused(own_module, factory, options, says):
    with pytest.raises(FedamdError, match=says):
        models.build(factory.format(own=own_module), data_of(4), **options)


# --- what cannot be trained ---


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        (nn.BatchNorm1d(3), "layer '1' is a BatchNorm1d.*use nn.GroupNorm"),
        (nn.SyncBatchNorm(3), "SyncBatchNorm"),
        (nn.BatchNorm1d(3, track_running_stats=False), "layer '1' is a BatchNorm1d: it mixes the samples"),
        (nn.InstanceNorm1d(3, track_running_stats=True), "InstanceNorm1d: its running statistics"),
        (nn.AlphaDropout(0.5), "layer '1' is a AlphaDropout.*neither resumed nor repeated; use nn.Dropout"),
        (nn.RReLU(), "RReLU.*use nn.LeakyReLU"),
        (nn.LSTM(3, 3, num_layers=2, dropout=0.1), "LSTM.*between layers of one each"),
        (nn.MultiheadAttention(3, 1, dropout=0.1), "MultiheadAttention.*set its attribute dropout to 0"),
        (nn.TransformerEncoderLayer(4, 2, 8), "layer '1.self_attn' is a MultiheadAttention"),
        (nn.FractionalMaxPool2d(2, output_size=2), "FractionalMaxPool2d"),
        (nn.LazyLinear(3), "has no shape yet; call the model on one batch first"),
    ],
)
def test_layers_with_memory_or_dice_are_refused(layer, says):
    with pytest.raises(FedamdError, match=says):
        Objective(nn.Sequential(nn.Linear(3, 3), layer), 3)


def test_layers_without_memory_or_dice_are_not():
    Objective(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.GroupNorm(2, 4), nn.LayerNorm(4), nn.RReLU(1, 1)), 4)
    Objective(nn.Sequential(nn.LSTM(3, 3, num_layers=2), nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)), 4)


def test_a_part_that_the_user_put_into_evaluation_mode_may_have_memory():
    """Its statistics are constants then. A model that is in evaluation mode as a whole would be trained as a whole."""
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    model[1].eval()
    Objective(model, 3)
    with pytest.raises(FedamdError, match="running statistics"):
        Objective(model.eval(), 3)


def test_what_would_never_be_called_or_trained_is_refused():
    model = nn.Sequential(nn.Linear(3, 3))
    model[0].weight.register_hook(lambda gradient: 2 * gradient)
    with pytest.raises(FedamdError, match=r"0\.weight has a hook on its gradient"):
        Objective(model, 3)
    with pytest.raises(FedamdError, match="all parameters of the model Linear are frozen"):
        Objective(nn.Linear(3, 3).requires_grad_(False), 3)


@pytest.mark.parametrize("model", [nn.Flatten(), nn.Sequential()])
def test_a_model_without_parameters_is_refused(model):
    with pytest.raises(FedamdError, match="has no parameters to train"):
        Objective(model, 10)
