"""Which models the native oracle can take, and how they are described to it."""

import ctypes
from collections.abc import Sequence
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
    DROPOUT = 5


class Description(ctypes.Structure):
    """A layer, as in kernels/network.h; what it has no use for is zero."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("kind", "inputs", "outputs", "kernel_rows", "kernel_columns")),
        *((name, ctypes.c_int64) for name in ("stride_rows", "stride_columns", "padding_rows", "padding_columns")),
        ("bias", ctypes.c_int64),
        ("dropped", ctypes.c_double),
    )


def describe(model: nn.Module, dataset: Dataset) -> list[Description]:
    """The model's layers, one after the other; `NotPlain` if the kernels would not compute the model's loss."""
    shape = dataset.inputs.shape[1:]
    if dataset.test_inputs.shape[1:] != shape or len(shape) not in (1, 3):
        raise NotPlain("training and test samples must be vectors, or images (channels, rows, columns), of one shape")
    steps = sequence(model, shape, elementwise=(nn.Dropout,))
    check_labels(dataset, steps[-1].outputs)
    check_unaugmented(dataset)
    tensors = (dataset.inputs, dataset.test_inputs, *model.parameters())
    if any(tensor.dtype != torch.float32 or tensor.device.type != "cpu" for tensor in tensors):
        raise NotPlain("model and inputs must be float32 on the CPU")
    layers = [step.layer for step in steps]
    return [_describe(layer) for layer in layers if not isinstance(layer, nn.Dropout) or drops(layer, model)]


def have_dropout(layers: Sequence[Description]) -> bool:
    """Whether any of them drops anything."""
    return any(layer.kind == _Kind.DROPOUT for layer in layers)


def drops(layer: nn.Dropout, model: nn.Module) -> bool:
    """Whether this layer drops anything in training."""
    if layer.training != model.training:
        raise NotPlain(f"{layer} is in another mode (training or evaluation) than the model it is in")
    return layer.p > 0


def _describe(layer: nn.Module) -> Description:
    if isinstance(layer, nn.Dropout):
        return Description(_Kind.DROPOUT, dropped=layer.p)
    if isinstance(layer, nn.Conv2d):
        kernel, stride, padding = pair(layer.kernel_size), pair(layer.stride), pair(layer.padding)
        channels = (layer.in_channels, layer.out_channels)
        return Description(_Kind.CONVOLUTION, *channels, *kernel, *stride, *padding, layer.bias is not None)
    if isinstance(layer, nn.MaxPool2d):
        kernel = pair(layer.kernel_size)
        if kernel != pair(layer.stride) or pair(layer.padding) != (0, 0):
            raise NotPlain(f"{layer} has a stride other than its kernel, or padding")
        return Description(_Kind.MAX_POOL, 0, 0, *kernel, *kernel)
    if isinstance(layer, nn.Linear):
        return Description(_Kind.LINEAR, layer.in_features, layer.out_features, bias=layer.bias is not None)
    return Description(_Kind.RELU if isinstance(layer, nn.ReLU) else _Kind.FLATTEN)
