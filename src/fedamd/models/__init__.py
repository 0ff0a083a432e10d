"""Models by name, and a user's own by "package.module:factory"."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from fedamd.data.base import Dataset
from fedamd.errors import FedamdError
from fedamd.models.convex import Logistic, Quadratic
from fedamd.models.networks import MLP, LeNet5, Softmax
from fedamd.registry import Registry, check_options

__all__ = ["MLP", "MODELS", "LeNet5", "Logistic", "Quadratic", "Softmax", "build"]


@dataclass(frozen=True)
class Model:
    """A model that can be named in a config: what it is, and how to make one that fits a data set."""

    description: str
    make: Callable[..., nn.Module]


def _lenet5(dataset: Dataset) -> nn.Module:
    shape = tuple(dataset.inputs.shape[1:])
    if len(shape) != 3 or min(shape[1:]) < 16:
        raise FedamdError(
            f"model lenet5 needs images of at least 16 × 16 pixels, and {dataset.name} has inputs of shape {shape}"
        )
    return LeNet5(*shape, dataset.classes)


def _mlp(
    dataset: Dataset,
    hidden: int = 100,  # width of the hidden layer
) -> nn.Module:
    if isinstance(hidden, bool) or not isinstance(hidden, int) or hidden < 1:
        raise FedamdError(f"model.hidden must be a whole number of at least 1, not {hidden!r}")
    return MLP(dataset.inputs[0].numel(), hidden, _classes("mlp", dataset))


def _softmax(dataset: Dataset) -> nn.Module:
    return Softmax(dataset.inputs[0].numel(), _classes("softmax", dataset))


def _logistic(
    dataset: Dataset,
    regularisation: float = 0.01,  # λ of ½λ‖x‖²
) -> nn.Module:
    if dataset.classes != 2:
        raise FedamdError(f"model logistic is for two classes, and {dataset.name} has {dataset.classes}; use softmax")
    if isinstance(regularisation, bool) or not isinstance(regularisation, int | float) or not regularisation >= 0:
        raise FedamdError(f"model.regularisation must be a number of at least 0, not {regularisation!r}")
    return Logistic(dataset.inputs[0].numel(), regularisation)


def _quadratic(dataset: Dataset) -> nn.Module:
    if dataset.inputs.dim() != 3 or dataset.inputs.shape[1] != 2:
        raise FedamdError(f"model quadratic goes with data quadratic, and {dataset.name} has samples of another shape")
    return Quadratic(dataset.inputs.shape[-1])


def _classes(model: str, dataset: Dataset) -> int:
    if not dataset.classes:
        raise FedamdError(f"model {model} classifies, and {dataset.name} has no classes")
    return dataset.classes


_OURS: dict[str, Model] = {
    "lenet5": Model("LeNet-5, the paper's network for Fashion-MNIST (44,426 parameters on 28 × 28 images)", _lenet5),
    "mlp": Model(
        "one hidden layer with ReLU, the paper's network for EMNIST (79,510 parameters with hidden = 100)", _mlp
    ),
    "softmax": Model("multinomial logistic regression", _softmax),
    "logistic": Model("binary logistic regression with an l2 term, no bias; for the data set of that name", _logistic),
    "quadratic": Model("½ Σ h (x − z)²; for the data set of that name", _quadratic),
}


def _adopted(name: str, found: Any) -> Model:
    """A user's own class or function; one that has a parameter `dataset` is given the data set."""
    if not callable(found):
        raise FedamdError(f"{name} is a {type(found).__name__}, not a function that makes a model")

    def make(dataset: Dataset, **options: Any) -> nn.Module:
        given = {"dataset": dataset} if "dataset" in inspect.signature(found).parameters else {}
        check_options(f"model {name}", found, options, given)
        model = found(**given, **options)
        if not isinstance(model, nn.Module):
            raise FedamdError(f"model.name: {name} returned a {type(model).__name__}, not a torch.nn.Module")
        return model

    return Model(next(iter((found.__doc__ or name).splitlines())), make)


MODELS: Registry[Model] = Registry("model", _OURS, _adopted)


def build(name: str, dataset: Dataset, **options: Any) -> nn.Module:
    """The model of this name for this data, or what the user's "package.module:factory" makes."""
    make = MODELS.find(name, "model.name").make
    check_options(f"model {name}", make, options, given=["dataset"])
    return make(dataset, **options)
