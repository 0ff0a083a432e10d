"""From targets as they were found to what a model is trained on: labels 0 … C − 1 with their names, or numbers."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedamd.errors import FedamdError

Array = NDArray[Any]


class Targets(NamedTuple):
    """What a model is trained on and held against; `classes` is 0 and there are no names where they are not labels."""

    train: Tensor
    test: Tensor | None
    classes: int
    names: tuple[str, ...]


def numbered_targets(train: Array, test: Array | None, classes: int | None, where: str) -> Targets:
    """Labels or numbers for a model.

    Words and truth values are class labels, and so are whole numbers unless `classes` is 0: kept as they are where they
    are 0 … C − 1 (or `classes` is given), else numbered in their order, the old ones being the names. Other numbers are
    targets of a regression.
    """
    parts = [train] if test is None else [train, test]
    if len({part.dtype.kind in "US" for part in parts}) > 1:
        raise FedamdError(f"{where}: training and test targets are of two kinds: words in one and numbers in the other")
    if any(part.dtype.kind == "f" for part in parts):
        return _from_numbers(parts, classes, where)
    if classes == 0:
        return _regression(parts, where)
    return _from_labels(parts, classes, where)


def _from_numbers(parts: list[Array], classes: int | None, where: str) -> Targets:
    if not classes:
        return _regression(parts, where)
    if any((part != np.floor(part)).any() for part in parts):  # NaN is unequal to itself
        raise FedamdError(f"{where}: there are {classes} classes, but some targets are not whole numbers")
    return _from_labels([part.astype(np.int64) for part in parts], classes, where)


def _regression(parts: list[Array], where: str) -> Targets:
    if parts[0].dtype.kind in "US":
        raise FedamdError(f"{where}: the targets are words, so they must be classes; leave out classes = 0")
    kind = np.float64 if any(part.dtype == np.float64 for part in parts) else np.float32
    tensors = [torch.from_numpy(part.astype(kind)) for part in parts]
    return Targets(tensors[0], tensors[1] if len(tensors) > 1 else None, 0, ())


def _from_labels(parts: list[Array], classes: int | None, where: str) -> Targets:
    found = np.unique(np.concatenate([part.ravel() for part in parts]))
    if found.dtype.kind in "US":
        names = tuple(str(label) for label in found)
        if classes is not None and len(names) > classes:
            raise FedamdError(f"{where} has {len(names)} different labels, more than the {classes} classes given")
        parts = [np.searchsorted(found, part) for part in parts]
        return _labels(parts, classes or len(names), names)
    found = found.astype(np.int64)
    if classes is not None and len(found) and not 0 <= found[0] <= found[-1] < classes:
        odd = found[0] if found[0] < 0 else found[-1]
        raise FedamdError(f"{where} holds the label {odd}; with classes = {classes} they go from 0 to {classes - 1}")
    if classes is not None or np.array_equal(found, np.arange(len(found))):
        return _labels(parts, classes or len(found), ())
    return _labels([np.searchsorted(found, part) for part in parts], len(found), tuple(map(str, found.tolist())))


def _labels(parts: list[Array], classes: int, names: tuple[str, ...]) -> Targets:
    tensors = [torch.from_numpy(part.astype(np.int64)) for part in parts]
    return Targets(tensors[0], tensors[1] if len(tensors) > 1 else None, classes, names)
