"""Group normalisation in place of batch normalisation, whose running statistics cannot be averaged over clients."""

import math
from copy import deepcopy
from typing import TypeVar

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from fedamd.errors import FedamdError

M = TypeVar("M", bound=nn.Module)


def with_group_norm(model: M, groups: int = 2) -> M:
    """A copy of the model with nn.GroupNorm where it had batch normalisation, with the same weights and biases.

    Channels are divided into `groups`, or into as many as divide both: nn.GroupNorm wants groups of one size. The
    statistics of instance normalisation are dropped too (one channel a group).
    """
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        raise FedamdError(f"with_group_norm: groups must be a whole number of at least 1, not {groups!r}")
    if isinstance(model, _NormBase):
        raise FedamdError("with_group_norm: the model is a normalisation itself; give the network it is part of")
    copied = deepcopy(model)
    for parent in list(copied.modules()):
        for name, layer in list(parent._modules.items()):
            if isinstance(layer, _NormBase):
                setattr(parent, name, _group_norm(layer, groups))
    return copied


def _group_norm(layer: _NormBase, groups: int) -> nn.GroupNorm:
    channels = layer.num_features
    if channels == 0:
        raise FedamdError(f"with_group_norm: {layer} has no shape yet; call the model on one batch first")
    own = channels if "Instance" in type(layer).__name__ else math.gcd(groups, channels)
    norm = nn.GroupNorm(own, channels, layer.eps, layer.affine)
    if layer.affine:
        norm = norm.to(layer.weight)
        with torch.no_grad():
            norm.weight.copy_(layer.weight)
            norm.bias.copy_(layer.bias)
        norm.weight.requires_grad_(layer.weight.requires_grad)
        norm.bias.requires_grad_(layer.bias.requires_grad)
    return norm.train(layer.training)
