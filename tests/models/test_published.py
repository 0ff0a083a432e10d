"""The field's networks have the parameters they are published with, fit their data, and can be stacked."""

import pytest
import torch
from torch import nn

from fedamd import models
from fedamd.data.base import Dataset
from fedamd.errors import FedamdError
from fedamd.models.sequences import CharLSTM, Transformer
from fedamd.oracles.autograd import AutogradOracle
from fedamd.oracles.base import Batch
from fedamd.oracles.objective import flat_parameters


def images(*shape: int, classes: int = 10) -> Dataset:
    random = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(4, *shape, generator=random), torch.arange(4) % classes
    return Dataset("images", inputs, targets, inputs, targets, classes)


def text(length: int, symbols: int, every_token: bool) -> Dataset:
    inputs = torch.randint(symbols, (4, length), generator=torch.Generator().manual_seed(0))
    targets = inputs.roll(-1, 1) if every_token else inputs[:, 0]
    return Dataset("text", inputs, targets, inputs, targets, symbols)


@pytest.mark.parametrize(
    ("name", "options", "data", "count"),
    [
        ("lenet5", {}, images(3, 32, 32), 62_006),  # 456 + 2,416 + 48,120 + 10,164 + 850
        ("cnn", {}, images(1, 28, 28), 1_663_370),  # McMahan et al. (2017), §3
        ("cnn", {"hidden": 2048}, images(1, 28, 28, classes=62), 6_603_710),  # LEAF
        ("cnn-pfl", {}, images(3, 32, 32), 896 + 18_496 + 1_605_760 + 1_290),  # pfl-research
        ("cnn-pfl", {}, images(1, 28, 28, classes=62), 1_206_590),  # FedML's and FLUTE's
        ("resnet18-gn", {}, images(3, 64, 64, classes=1000), 11_689_512),  # torchvision's resnet18
        ("resnet18-gn-cifar", {}, images(3, 32, 32), 11_173_962),
        ("vgg11-gn", {}, images(3, 32, 32), 9_231_114),
        ("charlstm", {}, text(5, 90, every_token=True), 820_522),  # Reddi et al. (2021), TensorFlow Federated
        ("charlstm", {}, text(5, 80, every_token=False), 8 * 80 + 271_360 + 525_312 + 257 * 80),
        ("transformer", {}, text(5, 10_004, every_token=True), 96 * 10_004 + 3 * (37_248 + 296_544 + 384)),
    ],
)
def test_parameters_are_as_many_as_published(name, options, data, count):
    model = models.build(name, data, **options)
    assert flat_parameters(model).numel() == count
    assert f"{count:,}" in models.MODELS[name].description or name == "charlstm"
    shape = (*data.targets.shape, data.classes)
    assert model.eval()(data.inputs).shape == shape


@pytest.mark.parametrize(
    ("name", "options", "data"),
    [
        ("cnn-pfl", {}, images(2, 9, 8, classes=3)),
        ("resnet18-gn-cifar", {"groups": 4}, images(1, 5, 5, classes=3)),
        ("charlstm", {"states": 5}, text(6, 7, every_token=True)),
        ("charlstm", {"states": 5}, text(6, 7, every_token=False)),
        ("transformer", {"width": 8, "heads": 2, "hidden": 6, "layers": 2}, text(6, 7, every_token=True)),
        ("transformer", {"width": 8, "heads": 2, "hidden": 6, "layers": 1}, text(6, 7, every_token=False)),
    ],
)
def test_a_stack_is_its_rows(name, options, data):
    torch.manual_seed(0)
    model, data = models.build(name, data, **options).double(), data.to("cpu", torch.float64)
    oracle = AutogradOracle(model, data)
    assert oracle.cannot_stack() is None
    x = torch.stack([flat_parameters(model), 1.1 * flat_parameters(model)])
    samples = torch.tensor([[0, 1, 3], [2, 0, 1]])
    batch = Batch(samples, torch.full((2, 3), 1 / 3).double(), samples + 5 if oracle.keyed else None)
    gradients, _ = oracle.gradient(x, batch)
    for row in range(2):
        keys = None if batch.keys is None else batch.keys[row]
        alone, _ = oracle.gradient(x[row], Batch(samples[row], batch.weights[row], keys))
        torch.testing.assert_close(gradients[row], alone, rtol=0, atol=1e-10)
        assert alone.abs().max() > 0


def test_the_lstm_is_pytorchs():
    torch.manual_seed(0)
    model = CharLSTM(symbols=9, every_token=True, embedding=3, states=4)
    theirs = nn.LSTM(3, 4, num_layers=2, batch_first=True)
    with torch.no_grad():
        for number, layer in enumerate(model.layers):
            getattr(theirs, f"weight_ih_l{number}").copy_(layer.inputs.weight)
            getattr(theirs, f"weight_hh_l{number}").copy_(layer.states.weight)
            getattr(theirs, f"bias_ih_l{number}").copy_(layer.inputs.bias)
            getattr(theirs, f"bias_hh_l{number}").zero_()
    tokens = torch.randint(9, (2, 7))
    torch.testing.assert_close(model(tokens), model.head(theirs(model.embedding(tokens))[0]))


def test_a_transformers_layer_is_pytorchs():
    torch.manual_seed(0)
    model = Transformer(words=9, every_token=True, width=8, heads=2, hidden=6, layers=1).eval()
    theirs = nn.TransformerEncoderLayer(8, 2, 6, dropout=0.0, batch_first=True)
    ours = model.layers[0]
    attention = ours.attention[0]
    with torch.no_grad():
        theirs.self_attn.in_proj_weight.copy_(attention.seen.weight)
        theirs.self_attn.in_proj_bias.copy_(attention.seen.bias)
        for mine, other in (
            (attention.result, theirs.self_attn.out_proj),
            (ours.tokenwise[0], theirs.linear1),
            (ours.tokenwise[3], theirs.linear2),
        ):
            other.weight.copy_(mine.weight)
            other.bias.copy_(mine.bias)
    values = torch.randn(3, 5, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    torch.testing.assert_close(ours(values), theirs(values, mask))


def test_a_token_sees_nothing_that_comes_after_it():
    torch.manual_seed(0)
    model = Transformer(words=9, every_token=True, width=8, heads=2, hidden=6, layers=2).eval()
    tokens = torch.randint(9, (1, 6))
    changed = tokens.clone()
    changed[0, 4:] = (tokens[0, 4:] + 1) % 9
    torch.testing.assert_close(model(tokens)[:, :4], model(changed)[:, :4])
    assert not torch.equal(model(tokens)[:, 4:], model(changed)[:, 4:])


@pytest.mark.parametrize(
    ("name", "options", "data", "says"),
    [
        ("cnn", {}, images(1, 3, 3), "at least 4 × 4"),
        ("vgg11-gn", {}, images(3, 16, 16), "at least 32 × 32"),
        ("resnet18-gn", {"groups": 3}, images(3, 32, 32), "must divide the 64 channels"),
        ("resnet18-gn", {"groups": True}, images(3, 32, 32), "model.groups must be a whole number"),
        ("cnn-pfl", {"dropout": 0.5}, images(3, 32, 32), "true or false"),
        ("charlstm", {}, images(1, 8, 8), "needs sequences of whole numbers"),
        ("transformer", {}, images(7), "needs sequences of whole numbers"),
        ("transformer", {"heads": 5}, text(4, 9, every_token=True), "multiple of model.heads"),
        ("transformer", {"dropout": 1.0}, text(4, 9, every_token=True), "from 0 to below 1"),
    ],
)
def test_what_does_not_fit_is_said(name, options, data, says):
    with pytest.raises(FedamdError, match=says):
        models.build(name, data, **options)


def test_batch_normalisation_gives_way_to_groups():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.Sequential(nn.BatchNorm2d(6), nn.ReLU()), nn.BatchNorm2d(6, affine=False)
    )
    with torch.no_grad():
        model[1][0].weight.uniform_()
    changed = models.with_group_norm(model, groups=4)
    assert repr(changed[1][0]) == repr(nn.GroupNorm(2, 6))  # the most that divide 4 and 6
    assert not changed[2].affine
    assert torch.equal(changed[1][0].weight, model[1][0].weight)
    assert isinstance(model[1][0], nn.BatchNorm2d)
    AutogradOracle(nn.Sequential(changed, nn.Flatten(), nn.Linear(216, 10)), images(3, 8, 8))
    with pytest.raises(FedamdError, match="groups must be a whole number"):
        models.with_group_norm(model, groups=0)
    with pytest.raises(FedamdError, match="network it is part of"):
        models.with_group_norm(model[2])
