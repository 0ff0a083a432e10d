"""What a data set must be before anything is run on it; each mistake is a sentence that says where it is."""

import logging

import torch
from torch import Tensor

from fedamd.data.base import Dataset
from fedamd.errors import FedamdError

log = logging.getLogger(__name__)

IGNORED = -100  # where targets are one a token: there is nothing to predict


def check(dataset: Dataset) -> Dataset:
    """The data set itself, if its parts fit together, its numbers are finite and its labels within its classes."""
    check_parts(dataset)
    check_numbers(dataset)
    return dataset


def check_given(dataset: Dataset) -> Dataset:
    """The same of one that was put together by hand: numbers that are not finite may be meant, and are warned of."""
    check_parts(dataset)
    try:
        check_numbers(dataset)
    except FedamdError as error:
        log.warning("%s (the replies of clients that own such samples will be rejected)", error)
    return dataset


def check_numbers(dataset: Dataset) -> None:
    """Refuse inputs and targets that are not finite."""
    for part, inputs, targets in (
        ("training", dataset.inputs, dataset.targets),
        ("test", dataset.test_inputs, dataset.test_targets),
    ):
        check_finite(f"{dataset.name}: the input of {part} sample", inputs)
        check_finite(f"{dataset.name}: the target of {part} sample", targets)


def check_parts(dataset: Dataset) -> None:
    """Refuse parts that do not fit together, and labels outside the classes."""
    name = dataset.name
    for part, inputs, targets in (
        ("training", dataset.inputs, dataset.targets),
        ("test", dataset.test_inputs, dataset.test_targets),
    ):
        _check_lengths(name, part, inputs, targets)
        _check_targets(name, part, targets, dataset.classes)
    for what, train, test in (
        ("inputs", dataset.inputs, dataset.test_inputs),
        ("targets", dataset.targets, dataset.test_targets),
    ):
        if train.shape[1:] != test.shape[1:] or train.dtype != test.dtype:
            raise FedamdError(
                f"{name}: training {what} are {_shape(train)} and test {what} {_shape(test)}; they must be alike"
            )
    _check_clients(dataset)


def _check_lengths(name: str, part: str, inputs: Tensor, targets: Tensor) -> None:
    if inputs.dim() == 0 or targets.dim() == 0 or len(inputs) == 0:
        wanted = "; give test = …, or test_share" if part == "test" else ""
        raise FedamdError(f"{name} has no {part} samples{wanted}")
    if len(inputs) != len(targets):
        raise FedamdError(f"{name} has {len(inputs)} {part} inputs and {len(targets)} targets; every sample has both")
    if inputs[0].numel() == 0:
        raise FedamdError(f"{name}: its {part} inputs are of shape {tuple(inputs.shape[1:])}, which holds nothing")


def check_finite(what: str, values: Tensor) -> None:
    """Refuse samples with numbers that are not finite, naming the first one."""
    if values.is_floating_point() and not bool(torch.isfinite(values.sum())):  # one pass; a sum may overflow, so look
        fine = torch.isfinite(values).flatten(1).all(1) if values.dim() > 1 else torch.isfinite(values)
        if not bool(fine.all()):
            raise FedamdError(
                f"{what} {int(fine.logical_not().nonzero()[0])} is not finite; {int((~fine).sum())} of {len(fine)} are "
                "not: leave them out, or fill in what is missing"
            )


def _check_targets(name: str, part: str, targets: Tensor, classes: int) -> None:
    if isinstance(classes, bool) or not isinstance(classes, int) or classes < 0:
        raise FedamdError(f"{name}: classes is {classes!r}; it is a whole number, 0 for targets that are not labels")
    if classes == 0:  # whole numbers may be what a model's own loss is about
        return
    if targets.is_floating_point():
        raise FedamdError(
            f"{name}: with classes = {classes} targets are labels 0 to {classes - 1}, not {targets.dtype}"
        )
    real = targets if targets.dim() == 1 else targets[targets != IGNORED]
    if real.numel() == 0:
        raise FedamdError(f"{name}: no {part} sample has a target")
    low, high = int(real.min()), int(real.max())
    if low < 0 or high >= classes:
        raise FedamdError(
            f"{name}: a {part} sample has the label {low if low < 0 else high}; with {classes} classes they go from 0 "
            f"to {classes - 1}"
        )


def _check_clients(dataset: Dataset) -> None:
    if dataset.clients is not None:
        order = dataset.clients.order
        if int(order.min()) < 0 or int(order.max()) >= len(dataset.inputs):
            raise FedamdError(
                f"{dataset.name}: a client owns a sample number outside 0 to {len(dataset.inputs) - 1}: "
                f"{int(order.min()) if int(order.min()) < 0 else int(order.max())}"
            )
    tests = dataset.client_tests
    if tests is not None and not len(tests.inputs) == len(tests.targets) == len(tests.owners):
        raise FedamdError(f"{dataset.name}: the clients' test inputs, targets and owners differ in number")


def _shape(values: Tensor) -> str:
    return f"{str(values.dtype).removeprefix('torch.')} of shape {tuple(values.shape[1:])}"
