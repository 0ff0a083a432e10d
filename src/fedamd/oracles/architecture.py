"""What a hand-written oracle may take for granted of a model and its data, decided in one place for all of them.

An oracle that does not call the model itself reads its architecture instead, so nothing may stand between the two: no
hooks, no parametrisations or masks, no changed methods, no loss of its own. What is not plain is left to autograd.
"""

import inspect
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrize

from fedamd.data.base import Dataset

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_HARMLESS = {
    "__init__",
    "__repr__",
    "__str__",
    "extra_repr",
    "__annotate__",
    "__annotate_func__",
}  # may be a class's own


class NotPlain(Exception):
    """The message says why an oracle cannot take the model."""


def check_plain(model: nn.Module) -> None:
    """Every module is what its type says, every parameter its own and trained. A module's own `forward` is not judged.

    Whoever does not call `forward` takes the layers from `sequence`, which does.
    """
    if any(getattr(torch_module, f"_global{hooks}") for hooks in _HOOKS):
        raise NotPlain("hooks are registered for all modules")
    if callable(getattr(model, "loss", None)):
        raise NotPlain("the model has its own loss")
    for name, module in model.named_modules():
        _check_module(f"layer '{name}'" if name else "the model", module)
    names: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        _check_parameter(name, parameter)
        if (first := names.setdefault(id(parameter), name)) != name:
            raise NotPlain(f"layers of the model share parameters ({first} is {name})")
    for name, _ in model.named_buffers():
        raise NotPlain(f"the model has buffers ({name})")


def _check_module(which: str, module: nn.Module) -> None:
    if parametrize.is_parametrized(module):
        raise NotPlain(f"{which} has parametrisations")
    if any(getattr(module, hooks) for hooks in _HOOKS):  # pruning and the older normalisations of weights are hooks too
        raise NotPlain(f"{which} has hooks")
    if changed := sorted(name for name in vars(module) if callable(getattr(type(module), name, None))):
        raise NotPlain(f"{which} has a method of its own ({changed[0]}) in place of its class's")


def _check_parameter(name: str, parameter: nn.Parameter) -> None:
    if type(parameter) is not nn.Parameter:
        raise NotPlain(f"the parameter {name} is a {type(parameter).__name__}")
    if not parameter.requires_grad:
        raise NotPlain(f"the parameter {name} is frozen")
    if not parameter.is_floating_point():
        raise NotPlain(f"the parameter {name} is {parameter.dtype}")


@dataclass(frozen=True)
class ShapedLayer:
    """A layer, and the shapes of one sample before and after it."""

    layer: nn.Module
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def sequence(
    model: nn.Module, shape: Sequence[int], elementwise: tuple[type[nn.Module], ...] = ()
) -> list[ShapedLayer]:
    """The layers of a plain model that is nothing but nested `nn.Sequential`s, in the order in which they run.

    They are Conv2d, ReLU, MaxPool2d, Flatten(1, -1) and Linear in their usual forms, and whatever else the caller knows
    that works `elementwise`; and they fit samples of this shape. The parameters of layer after layer, weight before
    bias, are `model.parameters()`: the order in which x holds them.
    """
    check_plain(model)
    steps: list[ShapedLayer] = []
    now = tuple(shape)
    for layer in _flattened(model):
        steps.append(ShapedLayer(layer, now, _after(layer, now, elementwise)))
        now = steps[-1].outputs
    expected = [own for step in steps for own in _weight_and_bias(step.layer)]
    held = list(model.parameters())
    if not held:
        raise NotPlain("the model has no parameters")
    if len(expected) != len(held) or any(one is not other for one, other in zip(expected, held, strict=True)):
        raise NotPlain("its parameters are not weight and bias of one layer after the other")
    return steps


def _flattened(module: nn.Module) -> Iterator[nn.Module]:
    if not isinstance(module, nn.Sequential):
        yield module
        return
    if own := _own_methods(type(module)):
        raise NotPlain(f"{type(module).__name__} has a {own[0]} method of its own")
    for child in module:
        yield from _flattened(child)


def _own_methods(kind: type[nn.Sequential]) -> list[str]:
    """What a subclass of `nn.Sequential` does differently, besides being built."""
    return sorted(
        name
        for ancestor in kind.__mro__[: kind.__mro__.index(nn.Sequential)]
        for name, value in vars(ancestor).items()
        if hasattr(nn.Sequential, name) and name not in _HARMLESS
        if inspect.isroutine(value) or isinstance(value, property)
    )


def _after(layer: nn.Module, shape: tuple[int, ...], elementwise: tuple[type[nn.Module], ...]) -> tuple[int, ...]:
    """The shape of a sample behind the layer."""
    if type(layer) in (nn.ReLU, *elementwise):
        return shape
    if type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1):
        return (math.prod(shape),)
    if type(layer) is nn.Linear:
        if shape != (layer.in_features,):
            raise NotPlain(f"{layer} takes {layer.in_features} inputs in a row and is given samples of shape {shape}")
        return (layer.out_features,)
    if type(layer) is nn.Conv2d:
        if layer.groups != 1 or layer.dilation != (1, 1) or layer.padding_mode != "zeros" or layer.padding == "same":
            raise NotPlain(f"{layer} has groups, dilation, or padding other than a number of zeros")
        if len(shape) == 3 and layer.in_channels != shape[0]:
            raise NotPlain(f"{layer} takes {layer.in_channels} channels and is given {shape[0]}")
        return (layer.out_channels, *_windows(layer, shape))
    if type(layer) is nn.MaxPool2d:
        if layer.ceil_mode or layer.return_indices or pair(layer.dilation) != (1, 1):
            raise NotPlain(f"{layer} has dilation, ceil_mode or return_indices")
        return (shape[0], *_windows(layer, shape))
    others = "".join(f", {kind.__name__}" for kind in elementwise)
    told = f"{type(layer).__name__}(…)" if list(layer.children()) else layer
    raise NotPlain(
        f"{told} is none of the layers it knows: Sequential, Conv2d, ReLU, MaxPool2d, Flatten(1, -1), Linear{others}"
    )


def _windows(layer: nn.Conv2d | nn.MaxPool2d, shape: tuple[int, ...]) -> tuple[int, int]:
    """In how many places the layer's window fits, down and across."""
    if len(shape) != 3:
        raise NotPlain(f"{layer} needs images (channels, rows, columns) and is given samples of shape {shape}")
    kernel, stride, padding = pair(layer.kernel_size), pair(layer.stride), pair(layer.padding)
    down, across = (
        (extent + 2 * pad - window) // step + 1
        for extent, window, step, pad in zip(shape[1:], kernel, stride, padding, strict=True)
    )
    if min(down, across) < 1:
        raise NotPlain(f"{layer} leaves nothing of images of shape {shape}")
    return down, across


def pair(value: int | str | tuple[int, ...]) -> tuple[int, int]:
    """A setting of a layer for rows and columns; "valid" padding is none."""
    if isinstance(value, str):
        return (0, 0)
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def _weight_and_bias(layer: nn.Module) -> list[Tensor]:
    """A layer's parameters, which must have the shapes its settings say."""
    if not isinstance(layer, nn.Linear | nn.Conv2d):
        return []
    kernel = layer.kernel_size if isinstance(layer, nn.Conv2d) else ()
    ins, outs = (
        (layer.in_features, layer.out_features)
        if isinstance(layer, nn.Linear)
        else (layer.in_channels, layer.out_channels)
    )
    found = [own for own in (layer.weight, layer.bias) if own is not None]
    if [tuple(own.shape) for own in found] != [(outs, ins, *kernel), (outs,)][: len(found)]:
        raise NotPlain(f"the parameters of {layer} have other shapes than it says")
    return found


def check_unaugmented(dataset: Dataset) -> None:
    """Inputs are read where they lie in memory, just as they are."""
    if dataset.augment is not None:
        raise NotPlain("it reads the data as they are, and these are to be augmented")


def check_labels(dataset: Dataset, outputs: tuple[int, ...]) -> None:
    """One class label for every sample, and an output of the network for every class."""
    if not dataset.classes:
        raise NotPlain("its loss is the cross-entropy of class labels, and the data have none")
    for inputs, targets in ((dataset.inputs, dataset.targets), (dataset.test_inputs, dataset.test_targets)):
        if targets.dtype != torch.int64 or targets.shape != inputs.shape[:1]:
            raise NotPlain("its loss is the cross-entropy of class labels: one int64 target for every sample")
        if bool(((targets < 0) | (targets >= dataset.classes)).any()):
            raise NotPlain(f"there are targets outside 0 … {dataset.classes - 1}")
    if len(outputs) != 1 or outputs[0] < dataset.classes:
        raise NotPlain(f"the model gives {outputs} per sample where the data have {dataset.classes} classes")
