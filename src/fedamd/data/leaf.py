"""LEAF's JSON files (FEMNIST and its relatives): every user is a client, with training and test samples of its own.

A file is {"users": [...], "user_data": {user: {"x": [...], "y": [...]}}}; a data set is a folder `train` of such files
and a folder `test` (Caldas et al., "LEAF: a benchmark for federated settings", 2018).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedamd.data.adapters import Samples, plain_array
from fedamd.data.assemble import assembled
from fedamd.data.base import Dataset
from fedamd.data.files import regular_file
from fedamd.errors import FedamdError


def read_leaf(
    path: str,  # the folder the data is in
    shape: Sequence[int] | None = None,  # of one input, where the file has rows of numbers
    classes: int | None = None,  # how many there are, where not all labels occur
    test_share: float | None = None,  # of every user's samples, kept for the test where there is no folder test
    name: str = "leaf",  # what the data set is called
) -> Dataset:
    """The data set in the folder `path`; inputs are brought into `shape`, where one is given.

    Without a folder `test`, `test_share` of every user's samples is held out. Where the test users are others than the
    training users (LEAF's split by user), the test samples belong to no client.
    """
    top = Path(path)
    folder = top / "data" if (top / "data" / "train").is_dir() else top
    train = _samples(folder / "train", shape)
    test = _samples(folder / "test", shape) if (folder / "test").is_dir() else None
    if test is not None and not set(_users(test)) <= set(_users(train)):
        test = Samples(test.inputs, test.targets)
    return assembled(name, train, test, test_share, 0, classes)


def _samples(folder: Path, shape: Sequence[int] | None) -> Samples:
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not files:
        raise FedamdError(f"there are no JSON files of LEAF in {folder}")
    inputs, targets, owners = [], [], []
    for file in files:
        for user, (x, y) in _read(file).items():
            if user in owners:
                raise FedamdError(f"{file}: the user {user} is in another file of {folder} too")
            inputs.append(_shaped(x, shape, file, user))
            targets.append(y)
            owners.append(user)
    widths = {array.shape[1:] for array in inputs}
    if len(widths) > 1:
        raise FedamdError(f"{folder}: inputs have the shapes {sorted(widths)}; all must be equal")
    counts = [len(array) for array in inputs]
    return Samples(
        torch.from_numpy(np.concatenate(inputs)),
        plain_array(np.concatenate(targets), str(folder)),
        np.repeat(owners, counts),
    )


def _read(path: Path) -> dict[str, tuple[Any, Any]]:
    """Inputs and targets of every user in one file, as arrays of equal length."""
    try:
        content = json.loads(regular_file(path).read_text(encoding="utf-8"))
        users = content["user_data"]
        pairs = {str(user): (users[user]["x"], users[user]["y"]) for user in users}
    except OSError as error:
        raise FedamdError(f"{path} cannot be read: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FedamdError(f"{path} is not JSON: {error}") from None
    except (KeyError, TypeError, IndexError):
        raise FedamdError(
            f'{path} is not a file of LEAF: {{"user_data": {{user: {{"x": […], "y": […]}}}}}} is expected'
        ) from None
    if not pairs:
        raise FedamdError(f"{path} has no users")
    return {user: _arrays(f"{path}, user {user}", *pair) for user, pair in pairs.items()}


def _arrays(where: str, x: Any, y: Any) -> tuple[Any, Any]:
    try:
        inputs = np.asarray(x, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        raise FedamdError(f"{where}: x is not a list of equally long lists of numbers") from None
    targets = plain_array(y, f"{where} (y)")
    if inputs.ndim < 2 or inputs.size == 0 or targets.ndim != 1 or len(inputs) != len(targets):
        raise FedamdError(f"{where}: x has the shape {inputs.shape} and y {targets.shape}, not a row for each y")
    return inputs, targets


def _shaped(x: Any, shape: Sequence[int] | None, file: Path, user: str) -> Any:
    if shape is None:
        return x
    try:
        return x.reshape(len(x), *shape)
    except (TypeError, ValueError):
        raise FedamdError(f"{file}, user {user}: inputs of shape {x.shape[1:]} cannot take the shape {shape}") from None


def _users(samples: Samples) -> list[str]:
    return [] if samples.owners is None else np.unique(samples.owners).tolist()
