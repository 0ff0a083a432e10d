"""What a hand-written oracle takes: what would make it compute another function than the model is refused."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_full_backward_hook
from torch.nn.utils import parametrizations, prune, spectral_norm, weight_norm

from fedamd.data.base import Dataset
from fedamd.oracles.architecture import NotPlain, check_labels, sequence

SHAPE = (2, 6, 6)


def plain() -> nn.Sequential:
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)), nn.Flatten(), nn.Linear(27, 4)
    )


class Named(nn.Sequential):
    """A subclass that only builds its layers, and adds what nobody calls."""

    def __init__(self) -> None:
        super().__init__(*plain())

    def extra_repr(self) -> str:
        return "named"

    def count(self) -> int:
        return len(self)


class Negated(nn.Sequential):
    def forward(self, inputs: Tensor) -> Tensor:
        return -super().forward(inputs)


class Reversed(nn.Sequential):
    def __iter__(self) -> Iterator[nn.Module]:
        return reversed(list(super().__iter__()))


class Smoothed(nn.Sequential):
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs, targets, label_smoothing=0.3, reduction="none")


class Doubled(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        return 2 * super().forward(inputs)


def test_layers_and_shapes_of_nested_sequentials() -> None:
    for model in (plain(), Named()):
        steps = sequence(model, SHAPE)
        assert [type(step.layer).__name__ for step in steps] == ["Conv2d", "ReLU", "MaxPool2d", "Flatten", "Linear"]
        assert [step.outputs for step in steps] == [(3, 6, 6), (3, 6, 6), (3, 3, 3), (27,), (4,)]
        assert [step.inputs for step in steps] == [SHAPE, *(step.outputs for step in steps[:-1])]


def changed(change: Callable[[nn.Sequential], object]) -> nn.Sequential:
    model = plain()
    change(model)
    return model


def swap(model: nn.Sequential) -> None:
    layer = model[2]
    layer._parameters = dict(reversed(layer._parameters.items()))


def freeze(model: nn.Sequential) -> None:
    model[0][0].weight.requires_grad_(False)


def replace_forward(model: nn.Sequential) -> None:
    model[2].forward = lambda inputs: inputs[:, :4]


def widen(model: nn.Sequential) -> None:
    model[2].weight = nn.Parameter(torch.zeros(5, 27))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (changed(lambda model: model.register_forward_hook(lambda *_: None)), "the model has hooks"),
        (changed(lambda model: model[0][0].register_forward_pre_hook(lambda *_: None)), "layer '0.0' has hooks"),
        (changed(lambda model: model[1].register_full_backward_hook(lambda *_: None)), "layer '1' has hooks"),
        (changed(lambda model: model[2].register_full_backward_pre_hook(lambda *_: None)), "layer '2' has hooks"),
        (changed(lambda model: prune.random_unstructured(model[2], "weight", 0.5)), "layer '2' has hooks"),
        (changed(lambda model: spectral_norm(model[2])), "layer '2' has hooks"),
        (changed(lambda model: parametrizations.weight_norm(model[2])), "layer '2' has parametrisations"),
        (changed(lambda model: parametrizations.spectral_norm(model[2])), "layer '2' has parametrisations"),
        (changed(replace_forward), "a method of its own (forward)"),
        (changed(swap), "not weight and bias of one layer after the other"),
        (changed(freeze), "0.0.weight is frozen"),
        (changed(widen), "other shapes than it says"),
        (changed(lambda model: model.register_buffer("mask", torch.ones(1))), "buffers (mask)"),
        (changed(lambda model: model.register_parameter("scale", nn.Parameter(torch.ones(1)))), "one layer after"),
        (Negated(*plain()), "Negated has a forward method of its own"),
        (nn.Sequential(Negated(*plain())), "Negated has a forward method of its own"),
        (Reversed(*plain()), "Reversed has a __iter__ method of its own"),
        (Smoothed(*plain()), "its own loss"),
        (nn.Sequential(nn.Flatten(), Doubled(72, 4)), "Doubled(in_features=72, out_features=4, bias=True) is none of"),
        (nn.Sequential(nn.Flatten(), nn.Linear(72, 4), nn.Tanh()), "Tanh() is none of the layers"),
        (nn.Bilinear(2, 2, 2), "none of the layers"),
        (nn.ModuleList([nn.Linear(2, 2)]), "ModuleList(…) is none of the layers"),
        (nn.Sequential(nn.Flatten(2), nn.Linear(36, 4)), "none of the layers"),
        (nn.Sequential(nn.Linear(6, 4)), "6 inputs in a row and is given samples of shape (2, 6, 6)"),
        (nn.Sequential(nn.Flatten(), nn.Linear(71, 4)), "takes 71 inputs"),
        (nn.Sequential(nn.Conv2d(3, 4, 3)), "takes 3 channels and is given 2"),
        (nn.Sequential(nn.Conv2d(2, 4, 7)), "leaves nothing"),
        (nn.Sequential(nn.Flatten(), nn.MaxPool2d(2)), "needs images"),
        (nn.Sequential(nn.Conv2d(2, 2, 3, dilation=2)), "dilation"),
        (nn.Sequential(nn.Conv2d(2, 2, 3, groups=2)), "groups"),
        (nn.Sequential(nn.Conv2d(2, 2, 3, padding="same")), "padding"),
        (nn.Sequential(nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect")), "padding"),
        (nn.Sequential(nn.MaxPool2d(2, ceil_mode=True)), "ceil_mode"),
        (nn.Sequential(nn.MaxPool2d(2, dilation=2)), "dilation"),
        (nn.Sequential(nn.Flatten()), "no parameters"),
        (nn.Sequential(), "no parameters"),
        (nn.Sequential(nn.BatchNorm2d(2)), "buffers"),
    ],
)
def test_what_is_not_plain_is_refused_with_its_reason(model: nn.Module, reason: str) -> None:
    with pytest.raises(NotPlain) as refused:
        sequence(model, SHAPE)
    assert reason in str(refused.value)


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_the_older_weight_norm_is_refused() -> None:
    model = plain()
    weight_norm(model[2])
    with pytest.raises(NotPlain, match="hooks"):
        sequence(model, SHAPE)


def test_shared_parameters_are_refused() -> None:
    layer = nn.Linear(72, 72)
    with pytest.raises(NotPlain, match=r"share parameters \(1.weight is 2.weight\)"):
        sequence(nn.Sequential(nn.Flatten(), layer, layer), SHAPE)


@contextmanager
def registered(handle: torch.utils.hooks.RemovableHandle) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize("register", [register_module_forward_hook, register_module_full_backward_hook])
def test_hooks_of_all_modules_are_seen(register: Callable[..., torch.utils.hooks.RemovableHandle]) -> None:
    with registered(register(lambda *_: None)), pytest.raises(NotPlain, match="hooks are registered for all modules"):
        sequence(plain(), SHAPE)
    sequence(plain(), SHAPE)


LABELS = torch.tensor([0, 3, 1])
DATA = Dataset("labelled", torch.zeros(3, 5), LABELS, torch.zeros(3, 5), LABELS, 4)


@pytest.mark.parametrize(
    ("change", "outputs", "reason"),
    [
        ({"classes": 0}, (4,), "the data have none"),
        ({"targets": LABELS.float()}, (4,), "one int64 target"),
        ({"targets": LABELS.unsqueeze(1)}, (4,), "one int64 target"),
        ({"targets": torch.tensor([0, 4, 1])}, (4,), "outside 0 … 3"),
        ({"test_targets": torch.tensor([0, -100, 1])}, (4,), "outside 0 … 3"),
        ({}, (3,), "where the data have 4 classes"),
        ({}, (2, 4), "where the data have 4 classes"),
    ],
)
def test_labels_that_another_loss_is_for(change: dict[str, object], outputs: tuple[int, ...], reason: str) -> None:
    check_labels(DATA, (4,))
    check_labels(DATA, (7,))  # outputs that no label asks for
    with pytest.raises(NotPlain, match=reason):
        check_labels(replace(DATA, **change), outputs)
