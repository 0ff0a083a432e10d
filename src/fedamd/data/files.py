"""Reads CSV and NPZ files into arrays; what is wrong with a file is said in a sentence that names the place."""

import csv
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedamd.errors import FedamdError

Array = NDArray[Any]
Table = dict[str, Any]  # a column by name: an array, or a sequence of values

DELIMITERS = ",;\t"
NPZ_NAMES = (  # training inputs and targets, test inputs and targets: ours, and those of Keras
    ("inputs", "targets", "test_inputs", "test_targets"),
    ("x_train", "y_train", "x_test", "y_test"),
)


def regular_file(path: Path) -> Path:
    """The path, if it is of a file: opening a FIFO would wait for ever, and a folder cannot be read."""
    if not path.exists():
        raise FedamdError(f"there is no file {path}")
    if not path.is_file():
        raise FedamdError(f"{path} is {'a folder' if path.is_dir() else 'no ordinary file'}; a file is expected")
    return path


def read_csv(path: Path) -> Table:
    """The columns of a CSV file with a header: whole numbers, numbers, or words where any value is a word.

    The delimiter (comma, semicolon or tab) is the one the header has most of.
    """
    try:
        with regular_file(path).open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            file.seek(0)
            rows = list(csv.reader(file, delimiter=max(DELIMITERS, key=header.count), strict=True))
    except OSError as error:
        raise FedamdError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise FedamdError(f"{path} is not a CSV file in UTF-8: {error}") from error
    return _columns(path, [row for row in rows if row])


def _columns(path: Path, rows: list[list[str]]) -> Table:
    if len(rows) < 2:
        raise FedamdError(f"{path} has no samples: a header and at least one row are expected")
    names = [name.strip() for name in rows[0]]
    for name in names:
        if not name or names.count(name) > 1:
            raise FedamdError(f"{path}: the header names a column '{name}', which is empty or there twice")
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(names):
            raise FedamdError(f"{path}: row {number} has {len(row)} values, and the header names {len(names)} columns")
        if not all(map(str.strip, row)):
            empty = names[[value.strip() for value in row].index("")]
            raise FedamdError(f"{path}: row {number} has no value in the column '{empty}'")
    columns = zip(*rows[1:], strict=True)
    return {name: _typed([value.strip() for value in column]) for name, column in zip(names, columns, strict=True)}


def _typed(values: list[str]) -> Array:
    for kind in (np.int64, np.float64):
        try:
            return np.array(values).astype(kind)
        except (ValueError, OverflowError):
            continue
    return np.array(values)


@dataclass(frozen=True)
class Arrays:
    """What an NPZ file holds; the test part and the owners are optional."""

    train: tuple[Array, Array]
    test: tuple[Array, Array] | None
    owners: Array | None
    test_owners: Array | None


def read_npz(path: Path) -> Arrays:
    """The arrays `inputs` and `targets`, and where present `test_inputs`, `test_targets`, `clients`, `test_clients`.

    Keras's names (x_train, y_train, x_test, y_test) are taken too. Nothing in the file is executed: arrays of Python
    objects are refused.
    """
    return _chosen(path, read_arrays(path))


def read_arrays(path: Path) -> dict[str, Array]:
    """All arrays of an NPZ file, by name."""
    try:
        with regular_file(path).open("rb") as file:
            stored = np.load(file, allow_pickle=False)
            return {name: stored[name] for name in getattr(stored, "files", ())}
    except FedamdError:
        raise
    except OSError as error:
        raise FedamdError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError, zipfile.BadZipFile, NotImplementedError, MemoryError) as error:
        raise FedamdError(f"{path} is not an NPZ file of plain arrays: {error}") from error


def _chosen(path: Path, arrays: dict[str, Array]) -> Arrays:
    for inputs, targets, test_inputs, test_targets in NPZ_NAMES:
        if inputs in arrays and targets in arrays:
            if (test_inputs in arrays) != (test_targets in arrays):
                raise FedamdError(f"{path} has one of {test_inputs} and {test_targets}; both or none are expected")
            test = (arrays[test_inputs], arrays[test_targets]) if test_inputs in arrays else None
            return Arrays((arrays[inputs], arrays[targets]), test, arrays.get("clients"), arrays.get("test_clients"))
    raise FedamdError(f"{path} holds {', '.join(arrays) or 'nothing'}; the arrays inputs and targets are expected")
