"""Which models the native oracle can take, and how they are described to it."""

from collections.abc import Iterator
from enum import IntEnum

import torch
from torch import nn

from fedamd.data.base import Dataset


def unsupported(model: nn.Module, dataset: Dataset) -> str | None:
    """Why the native oracle cannot take this model on this data set; None if it can."""
    try:
        list(layers_of(model))
    except _UnsupportedError as reason:
        return str(reason)
    parameters = list(model.parameters())
    if len(parameters) != len(list(model.named_parameters(remove_duplicate=False))):
        return "layers of the model share parameters"
    tensors = (dataset.inputs, dataset.test_inputs, *parameters)
    if any(tensor.dtype != torch.float32 or tensor.device.type != "cpu" for tensor in tensors):
        return "model and inputs must be float32 on the CPU"
    if not dataset.classes or callable(getattr(model, "loss", None)):
        return "it computes softmax cross-entropy only, and the data has no classes or the model its own loss"
    if dataset.targets.dtype != torch.int64 or dataset.test_targets.dtype != torch.int64:
        return "targets must be int64 class labels"
    if dataset.inputs.shape[1:] != dataset.test_inputs.shape[1:] or len(dataset.inputs.shape) not in (2, 4):
        return "training and test samples must be vectors, or images (channels, rows, columns), of one shape"
    if any(
        targets.shape != inputs.shape[:1]
        for inputs, targets in ((dataset.inputs, dataset.targets), (dataset.test_inputs, dataset.test_targets))
    ):
        return "every sample needs one target"
    return None


class _Kind(IntEnum):
    """As in kernels/network.h."""

    CONVOLUTION = 0
    RELU = 1
    MAX_POOL = 2
    FLATTEN = 3
    LINEAR = 4


# kind, inputs, outputs, then rows and columns of kernel, stride and padding, then bias: `Description` in network.h
_Layer = tuple[int, int, int, int, int, int, int, int, int, int]
FIELDS = 10


class _UnsupportedError(Exception):
    """The message is the reason."""


def layers_of(module: nn.Module) -> Iterator[_Layer]:
    """The layers of nested Sequentials, one after the other."""
    if isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward:
        for child in module:
            yield from layers_of(child)
    elif type(module) is nn.Conv2d:
        yield _convolution(module)
    elif type(module) is nn.MaxPool2d:
        yield _max_pool(module)
    elif type(module) is nn.Linear:
        yield (_Kind.LINEAR, module.in_features, module.out_features, 0, 0, 0, 0, 0, 0, module.bias is not None)
    elif type(module) is nn.ReLU:
        yield (_Kind.RELU, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    elif type(module) is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1):
        yield (_Kind.FLATTEN, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    else:
        raise _UnsupportedError(
            f"{module} is none of the layers it knows: Sequential, Conv2d, ReLU, MaxPool2d, Flatten(1, -1), Linear"
        )


def _convolution(conv: nn.Conv2d) -> _Layer:
    if conv.groups != 1 or conv.dilation != (1, 1) or conv.padding_mode != "zeros" or isinstance(conv.padding, str):
        raise _UnsupportedError(f"{conv} has groups, dilation, or padding other than a number of zeros")
    kernel, stride, padding = _pair(conv.kernel_size), _pair(conv.stride), _pair(conv.padding)
    return (_Kind.CONVOLUTION, conv.in_channels, conv.out_channels, *kernel, *stride, *padding, conv.bias is not None)


def _max_pool(pool: nn.MaxPool2d) -> _Layer:
    kernel, stride = _pair(pool.kernel_size), _pair(pool.stride)
    if kernel != stride or _pair(pool.padding) != (0, 0) or _pair(pool.dilation) != (1, 1):
        raise _UnsupportedError(f"{pool} has a stride other than its kernel, padding or dilation")
    if pool.ceil_mode or pool.return_indices:
        raise _UnsupportedError(f"{pool} has ceil_mode or return_indices")
    return (_Kind.MAX_POOL, 0, 0, *kernel, *stride, 0, 0, 0)


def _pair(value: int | tuple[int, ...]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])
