"""The final model as a file: its named state_dict in safetensors, which any program can read and which runs no code."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from fedamd.errors import FedamdError
from fedamd.files import refuse_special
from fedamd.oracles.objective import load_parameters, trainable
from fedamd.runs import checkpoint

_FLAT = "x"  # what files of earlier versions hold: one vector


def save_model(path: Path, model: nn.Module, x: Tensor) -> None:
    """The model's state_dict with the trained vector x in it; the model is left with it."""
    load_parameters(model, x)
    shapes = {name: list(parameter.shape) for name, parameter in trainable(model).items()}
    checkpoint.save(path, model.state_dict(), {"parameters": shapes})


def read_vector(path: Path) -> Tensor:
    """The trained vector x."""
    tensors, facts = checkpoint.load(path)
    if _FLAT in tensors and _FLAT not in facts.get("parameters", {}):
        return tensors[_FLAT]
    return torch.cat([tensors[name].flatten() for name in facts["parameters"]])


def load_weights(model: nn.Module, path: Path) -> None:
    """Put the weights of a safetensors file into the model: a state_dict of its names and shapes, or a flat vector."""
    tensors = _tensors(path)
    if set(tensors) == {_FLAT} and _FLAT not in model.state_dict():
        _load_flat(model, tensors[_FLAT], path)
        return
    own = model.state_dict()
    wrong = [name for name in own.keys() | tensors.keys() if _shape(own.get(name)) != _shape(tensors.get(name))]
    if wrong:
        told = "; ".join(f"{name}: {_shape(own.get(name))}, {_shape(tensors.get(name))}" for name in sorted(wrong)[:3])
        raise FedamdError(f"{path} does not hold the weights of this model (shapes of the model, of the file: {told})")
    model.load_state_dict(dict(tensors))


def _tensors(path: Path) -> Mapping[str, Tensor]:
    if path.suffix != ".safetensors":
        raise FedamdError(f"{path}: weights are read from .safetensors files, which run no code; convert it first")
    refuse_special(path)
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
    except FileNotFoundError:
        raise FedamdError(f"there is no file {path} to read weights from") from None
    except (OSError, SafetensorError) as error:
        raise FedamdError(f"the weights in {path} cannot be read: {error}") from None


def _load_flat(model: nn.Module, x: Tensor, path: Path) -> None:
    count = sum(parameter.numel() for parameter in trainable(model).values())
    if x.numel() != count:
        raise FedamdError(f"{path} holds {x.numel()} weights, and this model has {count}")
    load_parameters(model, x)


def _shape(value: Any) -> str:
    return "none" if value is None else str(list(value.shape))
