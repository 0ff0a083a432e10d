"""A client is a function of what it is sent: a model with memory or random numbers of its own is refused."""

from collections.abc import Iterator

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import UninitializedParameter

from fedamd.errors import FedamdError
from fedamd.oracles.dropout import ADDRESSED


def refuse_hidden_state(model: nn.Module) -> None:
    """There must be parameters to train, and nothing else may change or be drawn when the model runs."""
    for name, parameter in model.named_parameters():
        if isinstance(parameter, UninitializedParameter):
            raise FedamdError(f"the parameter {name} has no shape yet; call the model on one batch first")
        if parameter._backward_hooks:
            raise FedamdError(
                f"the parameter {name} has a hook on its gradient, which would never be called: gradients are taken "
                "with respect to all parameters as one vector; remove it"
            )
    if not any(parameter.numel() for parameter in model.parameters()):
        raise FedamdError(f"the model {type(model).__name__} has no parameters to train")
    if not any(parameter.numel() and parameter.requires_grad for parameter in model.parameters()):
        raise FedamdError(f"all parameters of the model {type(model).__name__} are frozen; none is left to train")
    for name, layer in model.named_modules():
        fixed = model.training and not layer.training  # the user has put this part of the model into evaluation mode
        for reason in () if fixed else (*_memory(layer), *_randomness(layer)):
            raise FedamdError(f"layer '{name}' is a {type(layer).__name__}: {reason}")
        if isinstance(layer, _BatchNorm) and layer.running_mean is None:
            raise FedamdError(f"layer '{name}' is a {type(layer).__name__}: {_MIXED}")


_MIXED = (
    "it mixes the samples of a batch, so that a sample has no loss of its own; use nn.GroupNorm (or LayerNorm) "
    "instead: fedamd.models.with_group_norm(model) does"
)


def _memory(layer: nn.Module) -> Iterator[str]:
    if isinstance(layer, _NormBase) and layer.track_running_stats:
        yield (
            "its running statistics are not parameters and cannot be averaged over clients with different data; use "
            "nn.GroupNorm (or LayerNorm) instead: fedamd.models.with_group_norm(model) does. One that is not to change "
            "any more is put into evaluation mode (layer.eval() after model.train())"
        )


def _randomness(layer: nn.Module) -> Iterator[str]:
    """Random numbers that belong to no address: a run with them could be neither resumed nor repeated."""
    lost = "its random numbers belong to no address, so a run could be neither resumed nor repeated"
    if isinstance(layer, _DropoutNd) and layer.p > 0 and type(layer) not in ADDRESSED:
        yield f"{lost}; use nn.Dropout, whose masks are addressed"
    if isinstance(layer, nn.RReLU) and layer.lower < layer.upper:
        yield f"{lost}; use nn.LeakyReLU"
    if isinstance(layer, nn.RNNBase) and layer.dropout > 0 and layer.num_layers > 1:
        yield f"{lost}; set its dropout to 0 and put nn.Dropout between layers of one each"
    if isinstance(layer, nn.MultiheadAttention) and layer.dropout > 0:
        yield f"{lost}; set its attribute dropout to 0 (nn.Dropout elsewhere is addressed and may stay)"
    if isinstance(layer, nn.FractionalMaxPool2d | nn.FractionalMaxPool3d):
        yield f"{lost}; use nn.MaxPool2d or nn.AdaptiveMaxPool2d"
