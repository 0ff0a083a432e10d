"""Models by name, and a user's own by "package.module:factory"."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from fedamd.data.base import Dataset
from fedamd.data.memory import refuse_what_cannot_fit
from fedamd.errors import FedamdError, at_work
from fedamd.models.convex import Logistic, Quadratic
from fedamd.models.images import CNN, VGG11, CNNOfPfl, ResNet18
from fedamd.models.networks import MLP, LeNet5, Softmax
from fedamd.models.normalisation import with_group_norm
from fedamd.models.sequences import CharLSTM, Transformer
from fedamd.registry import Registry, check_options, parameters_of

__all__ = [
    "CNN",
    "MLP",
    "MODELS",
    "VGG11",
    "CNNOfPfl",
    "CharLSTM",
    "LeNet5",
    "Logistic",
    "Quadratic",
    "ResNet18",
    "Softmax",
    "Transformer",
    "build",
    "with_group_norm",
]


@dataclass(frozen=True)
class Model:
    """A model that can be named in a config: what it is, and how to make one that fits a data set."""

    description: str
    make: Callable[..., nn.Module]


def _lenet5(dataset: Dataset) -> nn.Module:
    return LeNet5(*_images("lenet5", dataset, 16), _classes("lenet5", dataset))


def _cnn(
    dataset: Dataset,
    hidden: int = 512,  # width of the hidden linear layer; LEAF has 2048
) -> nn.Module:
    _whole("hidden", hidden)
    channels, height, width = _images("cnn", dataset, 4)
    _refuse_larger_than_memory(64 * (height // 4) * (width // 4) * hidden, hidden=hidden)
    return CNN(channels, height, width, _classes("cnn", dataset), hidden)


def _cnn_pfl(
    dataset: Dataset,
    dropout: bool = True,  # whether a quarter of the features and half of the hidden units are dropped in training
) -> nn.Module:
    if not isinstance(dropout, bool):
        raise FedamdError(f"model.dropout must be true or false, not {dropout!r}")
    return CNNOfPfl(*_images("cnn-pfl", dataset, 6), _classes("cnn-pfl", dataset), dropout)


def _resnet18(
    dataset: Dataset,
    groups: int = 2,  # of channels, normalised together
) -> nn.Module:
    channels, _, _ = _images("resnet18-gn", dataset, 1)
    return ResNet18(channels, _classes("resnet18-gn", dataset), _divisor(groups))


def _resnet18_cifar(
    dataset: Dataset,
    groups: int = 2,  # of channels, normalised together
) -> nn.Module:
    channels, _, _ = _images("resnet18-gn-cifar", dataset, 1)
    return ResNet18(channels, _classes("resnet18-gn-cifar", dataset), _divisor(groups), small=True)


def _vgg11(
    dataset: Dataset,
    groups: int = 2,  # of channels, normalised together
) -> nn.Module:
    channels, _, _ = _images("vgg11-gn", dataset, 32)
    return VGG11(channels, _classes("vgg11-gn", dataset), _divisor(groups))


def _charlstm(
    dataset: Dataset,
    embedding: int = 8,  # dimension of a character
    states: int = 256,  # width of both LSTM layers
) -> nn.Module:
    _whole("embedding", embedding)
    _whole("states", states)
    symbols, every_token = _tokens("charlstm", dataset)
    _refuse_larger_than_memory(
        symbols * embedding + 4 * states * (embedding + 3 * states), embedding=embedding, states=states
    )
    return CharLSTM(symbols, every_token, embedding, states)


def _transformer(
    dataset: Dataset,
    width: int = 96,  # dimension of a token
    heads: int = 8,  # of attention
    hidden: int = 1536,  # width of the hidden layer for each token
    layers: int = 3,  # of attention and hidden layer
    dropout: float = 0.1,  # share dropped in training
) -> nn.Module:
    for name, value in (("width", width), ("heads", heads), ("hidden", hidden), ("layers", layers)):
        _whole(name, value)
    if width % 2 or width % heads:
        raise FedamdError(f"model.width must be even and a multiple of model.heads, and {width} is not one of {heads}")
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise FedamdError(f"model.dropout must be a number from 0 to below 1, not {dropout!r}")
    symbols, every_token = _tokens("transformer", dataset)
    weights = symbols * width + layers * width * (4 * width + 2 * hidden)
    _refuse_larger_than_memory(weights, width=width, hidden=hidden, layers=layers)
    return Transformer(symbols, every_token, width, heads, hidden, layers, dropout)


def _mlp(
    dataset: Dataset,
    hidden: int = 100,  # width of the hidden layer
) -> nn.Module:
    _whole("hidden", hidden)
    inputs = dataset.inputs[0].numel()
    outputs = dataset.classes or dataset.targets[0].numel()  # where nothing is classified, the numbers to predict
    _refuse_larger_than_memory((inputs + outputs) * hidden, hidden=hidden)
    return MLP(inputs, hidden, outputs)


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


def _images(model: str, dataset: Dataset, least: int) -> tuple[int, int, int]:
    """Channels, height and width."""
    shape = tuple(dataset.inputs.shape[1:])
    if len(shape) != 3 or min(shape[1:]) < least:
        raise FedamdError(
            f"model {model} needs images of at least {least} × {least} pixels, and {dataset.name} has inputs of shape "
            f"{shape}"
        )
    return shape


def _tokens(model: str, dataset: Dataset) -> tuple[int, bool]:
    """How many symbols there are, and whether every token has a target or the whole sequence one."""
    inputs, targets = dataset.inputs, dataset.targets
    if inputs.dim() != 2 or inputs.is_floating_point() or targets.shape not in (inputs.shape, inputs.shape[:1]):
        raise FedamdError(
            f"model {model} needs sequences of whole numbers (n, T) with a target each (n,), or one a token (n, T), "
            f"and {dataset.name} has inputs {tuple(inputs.shape)} of {inputs.dtype} and targets {tuple(targets.shape)}"
        )
    return max(_classes(model, dataset), int(inputs.max()) + 1 if inputs.numel() else 1), targets.dim() == 2


def _whole(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise FedamdError(f"model.{name} must be a whole number of at least 1, not {value!r}")


def _refuse_larger_than_memory(weights: int, **options: int) -> None:
    """Before any of it is made: training has the weights, their flat vector x and a gradient of it in memory."""
    told = " and ".join(f"model.{name} = {value}" for name, value in options.items())
    refuse_what_cannot_fit(f"the {3 * weights:,} numbers of training with {told}", 3 * weights, "choose less", 4)


def _divisor(groups: int) -> int:
    _whole("groups", groups)
    if 64 % groups:
        raise FedamdError(f"model.groups must divide the 64 channels of the first layer, and {groups} does not")
    return groups


_OURS: dict[str, Model] = {
    "lenet5": Model(
        "LeNet-5, the paper's network for Fashion-MNIST (44,426 parameters on 28 × 28 images; 62,006 on 3 × 32 × 32)",
        _lenet5,
    ),
    "mlp": Model(
        "one hidden layer with ReLU, for classes or numbers; the paper's network for EMNIST (79,510 parameters with "
        "hidden = 100)",
        _mlp,
    ),
    "cnn": Model(
        "two 5 × 5 convolutions and two linear layers: FedAvg's network for MNIST (1,663,370 parameters), and LEAF's "
        "for FEMNIST with hidden = 2048 (6,603,710)",
        _cnn,
    ),
    "cnn-pfl": Model(
        "pfl-research's network for CIFAR-10, with dropout (1,626,442 parameters); on FEMNIST FedML's and FLUTE's "
        "(1,206,590)",
        _cnn_pfl,
    ),
    "resnet18-gn": Model(
        "ResNet-18 with GroupNorm and torchvision's stem (11,689,512 parameters with 1000 classes)", _resnet18
    ),
    "resnet18-gn-cifar": Model(
        "ResNet-18 with GroupNorm and a 3 × 3 stem, for small images (11,173,962 parameters with 10 classes)",
        _resnet18_cifar,
    ),
    "vgg11-gn": Model("VGG-11 with GroupNorm, for small images (9,231,114 parameters with 10 classes)", _vgg11),
    "charlstm": Model(
        "LEAF's network for Shakespeare: two LSTM layers over characters (820,522 parameters with 90 symbols)",
        _charlstm,
    ),
    "transformer": Model(
        "pfl-research's language model for Stack Overflow (1,962,912 parameters with 10,004 words)", _transformer
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
        given = {"dataset": dataset} if "dataset" in parameters_of(name, found) else {}
        check_options(f"model {name}", found, options, given)
        with at_work(f"the model {name} cannot be made"):
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
