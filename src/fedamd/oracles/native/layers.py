"""Which models the native oracle can take, and how they are described to it."""

from enum import IntEnum

import torch
from torch import nn

from fedamd.data.base import Dataset
from fedamd.oracles.architecture import NotPlain, check_labels, check_unaugmented, pair, sequence


def unsupported(model: nn.Module, dataset: Dataset) -> str | None:
    """Why the native oracle cannot take this model on this data set; None if it can."""
    try:
        describe(model, dataset)
    except NotPlain as reason:
        return str(reason)
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


def describe(model: nn.Module, dataset: Dataset) -> list[_Layer]:
    """The model's layers, one after the other; `NotPlain` if the kernels would not compute the model's loss."""
    shape = dataset.inputs.shape[1:]
    if dataset.test_inputs.shape[1:] != shape or len(shape) not in (1, 3):
        raise NotPlain("training and test samples must be vectors, or images (channels, rows, columns), of one shape")
    steps = sequence(model, shape)
    check_labels(dataset, steps[-1].outputs)
    check_unaugmented(dataset)
    tensors = (dataset.inputs, dataset.test_inputs, *model.parameters())
    if any(tensor.dtype != torch.float32 or tensor.device.type != "cpu" for tensor in tensors):
        raise NotPlain("model and inputs must be float32 on the CPU")
    return [_layer(step.layer) for step in steps]


def _layer(layer: nn.Module) -> _Layer:
    if isinstance(layer, nn.Conv2d):
        kernel, stride, padding = pair(layer.kernel_size), pair(layer.stride), pair(layer.padding)
        channels = (layer.in_channels, layer.out_channels)
        return (_Kind.CONVOLUTION, *channels, *kernel, *stride, *padding, layer.bias is not None)
    if isinstance(layer, nn.MaxPool2d):
        kernel = pair(layer.kernel_size)
        if kernel != pair(layer.stride) or pair(layer.padding) != (0, 0):
            raise NotPlain(f"{layer} has a stride other than its kernel, or padding")
        return (_Kind.MAX_POOL, 0, 0, *kernel, *kernel, 0, 0, 0)
    if isinstance(layer, nn.Linear):
        return (_Kind.LINEAR, layer.in_features, layer.out_features, 0, 0, 0, 0, 0, 0, layer.bias is not None)
    return (_Kind.RELU if isinstance(layer, nn.ReLU) else _Kind.FLATTEN, 0, 0, 0, 0, 0, 0, 0, 0, 0)
