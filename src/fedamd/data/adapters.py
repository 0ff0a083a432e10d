"""Samples in whatever people keep them in, as tensors and plain arrays.

Taken are: two arrays (numpy, lists, tensors), a `torch.utils.data.Dataset` (torchvision's are), a Hugging Face
`datasets.Dataset`, a pandas frame, and the path of a CSV or NPZ file. pandas and datasets are not imported here: who
has an object of theirs has them.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, TensorDataset

from fedamd.data.files import Table, read_csv, read_npz
from fedamd.errors import FedamdError

TAKEN = (
    "a pair (inputs, targets) of arrays, a torch.utils.data.Dataset, a Hugging Face dataset, a pandas frame, or the "
    "path of a .csv or .npz file"
)
WHITE = 255  # unsigned bytes are pixels: they become 0 … 1

Array = NDArray[Any]


@dataclass(frozen=True)
class Samples:
    """Inputs ready for a model; targets and owners as they were found, numbers or words."""

    inputs: Tensor  # (n, *shape), floating-point, or int64 tokens
    targets: Array  # (n, …)
    owners: Array | None = None  # (n,)

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True)
class Reading:
    """How to read a source: which column is what, and what to call the source in a message."""

    where: str = "the data"
    target: str | None = None  # the column (of a table or a Hugging Face data set) with the targets
    client: str | None = None  # the column that names each sample's owner
    columns: Sequence[str] | None = None  # the columns that are inputs; by default all others
    tokens: bool = False  # whole numbers are tokens, not quantities: they stay int64


def samples_of(source: Any, targets: Any, reading: Reading) -> Samples:
    """The samples in any of the forms this module takes."""
    if targets is not None:
        return _pair(source, targets, reading)
    if isinstance(source, str | Path):
        return _file(Path(source), reading)
    if isinstance(source, tuple | list) and len(source) == 2:
        return _pair(source[0], source[1], reading)
    if _is(source, "pandas", "DataFrame"):
        return _table({str(name): source[name].to_numpy() for name in source.columns}, reading)
    if _is(source, "datasets", "Dataset"):
        return _hugging_face(source, reading)
    if isinstance(source, TensorDataset) and len(source.tensors) == 2:
        return _pair(*source.tensors, reading)
    if isinstance(source, TorchDataset):
        return _items(source, reading)
    raise FedamdError(f"{reading.where} is a {type(source).__name__}; it should be {TAKEN}")


def input_tensor(values: Any, where: str, tokens: bool = False) -> Tensor:
    """A stack of inputs: bytes are pixels and become 0 … 1, other whole numbers quantities, unless they are tokens."""
    tensor = values.detach().cpu() if isinstance(values, Tensor) else torch.from_numpy(_numbers(values, where))
    if tensor.is_complex():
        raise FedamdError(f"{where} holds complex numbers; a model's inputs are real")
    if tokens:
        if tensor.is_floating_point():
            raise FedamdError(f"{where} is said to hold tokens, but its numbers are {tensor.dtype}, not whole numbers")
        return tensor.long()
    if tensor.dtype == torch.uint8:
        return tensor.float() / WHITE
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


def plain_array(values: Any, where: str) -> Array:
    """Targets or owners: one number or word (or a row of numbers) for each sample."""
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    try:
        array = np.asarray(values)
    except ValueError:
        raise FedamdError(f"{where}: the rows have different lengths") from None
    if array.dtype.kind == "O" or not isinstance(array, np.ndarray):
        array = _settled(array, where)
    if array.dtype.kind not in "biufUS":
        raise FedamdError(f"{where} holds values of type {array.dtype}; numbers or words are expected")
    return array


def npz_samples(path: Path, tokens: bool = False) -> tuple[Samples, Samples | None]:
    """The training samples of an NPZ file, and the test samples it may bring."""
    arrays = read_npz(path)
    train = replace(_pair(*arrays.train, Reading(str(path), tokens=tokens)), owners=arrays.owners)
    if arrays.test is None:
        return train, None
    return train, replace(_pair(*arrays.test, Reading(f"{path} (test)", tokens=tokens)), owners=arrays.test_owners)


def _pair(inputs: Any, targets: Any, reading: Reading) -> Samples:
    if reading.target or reading.client or reading.columns:
        raise FedamdError(f"{reading.where} is a pair of arrays, which have no columns to name")
    return Samples(
        input_tensor(inputs, f"{reading.where} (inputs)", reading.tokens),
        plain_array(targets, f"{reading.where} (targets)"),
    )


def _file(path: Path, reading: Reading) -> Samples:
    if path.suffix == ".npz":
        return npz_samples(path, reading.tokens)[0]
    if path.suffix == ".csv":
        return _table(read_csv(path), Reading(str(path), reading.target, reading.client, reading.columns))
    raise FedamdError(f"{path}: unknown kind of file; a .csv or .npz file is expected")


def _table(table: Table, reading: Reading) -> Samples:
    """Columns side by side: one with the target, one with the owner if asked for, the others numbers."""
    if reading.target is None:
        raise FedamdError(f'{reading.where} is a table: say which column is the target, as in target = "label"')
    for name in (reading.target, reading.client, *(reading.columns or ())):
        if name is not None and name not in table:
            raise FedamdError(f"{reading.where} has no column '{name}'; it has {', '.join(table)}")
    columns = reading.columns or [name for name in table if name not in (reading.target, reading.client)]
    if not columns:
        raise FedamdError(f"{reading.where} has no columns left for the inputs")
    inputs = [_column(table[name], name, reading.where) for name in columns]
    owners = None if reading.client is None else plain_array(table[reading.client], _named(reading, reading.client))
    return Samples(torch.stack(inputs, 1), plain_array(table[reading.target], _named(reading, reading.target)), owners)


def _column(values: Any, name: str, where: str) -> Tensor:
    try:
        return torch.from_numpy(np.asarray(values).astype(np.float32))
    except (TypeError, ValueError):
        odd = next(value for value in values if not _is_number(value))
        raise FedamdError(
            f"{where}, column '{name}' holds '{odd}', and inputs are numbers; encode it, or name the columns that are "
            "inputs (columns = [...])"
        ) from None


def _hugging_face(source: Any, reading: Reading) -> Samples:
    """One column of inputs (images, arrays) or several of numbers."""
    names = list(source.column_names)
    inputs = reading.columns or [name for name in names if name not in (reading.target, reading.client)]
    if reading.target not in names or len(inputs) != 1 or inputs[0] not in names:
        return _table({name: source[name] for name in names}, reading)
    owners = None if reading.client is None else plain_array(list(source[reading.client]), reading.client)
    return Samples(
        _stacked(source[inputs[0]], reading),
        plain_array(list(source[reading.target]), _named(reading, str(reading.target))),
        owners,
    )


def _items(source: Any, reading: Reading) -> Samples:
    """A torch data set, item by item: each is an input and its target."""
    items = source if isinstance(source, IterableDataset) else (source[index] for index in range(len(source)))
    inputs: list[Any] = []
    targets: list[Any] = []
    for item in items:
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise FedamdError(
                f"{reading.where}: item {len(inputs)} is a {type(item).__name__}; a pair (input, target) is expected"
            )
        inputs.append(item[0])
        targets.append(item[1].numpy() if isinstance(item[1], Tensor) else item[1])
    return Samples(_stacked(inputs, reading), plain_array(targets, f"{reading.where} (targets)"))


def _stacked(inputs: Iterable[Any], reading: Reading) -> Tensor:
    rows = [_one_input(value, reading) for value in inputs]
    for index, row in enumerate(rows):
        if row.shape != rows[0].shape:
            raise FedamdError(
                f"{reading.where}: input {index} has the shape {tuple(row.shape)}, and input 0 {tuple(rows[0].shape)}; "
                "all must be equal"
            )
    return torch.stack(rows) if rows else torch.empty(0)


def _one_input(value: Any, reading: Reading) -> Tensor:
    """A tensor, an array, a number or a picture; pictures are channels first, as PyTorch has them."""
    if _is(value, "PIL.Image", "Image"):
        pixels = np.array(value)
        value = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return input_tensor(value, f"{reading.where} (inputs)", reading.tokens)


def _numbers(values: Any, where: str) -> Array:
    try:
        array = np.asarray(values)
    except ValueError:
        raise FedamdError(f"{where}: the rows have different lengths") from None
    if array.dtype.kind == "O":
        array = _settled(array, where)
    if array.dtype.kind not in "biuf":
        raise FedamdError(f"{where} holds values of type {array.dtype}; inputs are numbers")
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:  # PyTorch computes with few of the wider unsigned types
        array = array.astype(np.int64)
    if array.dtype == np.longdouble:
        array = array.astype(np.float64)
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("="), copy=False)


def _settled(array: Array, where: str) -> Array:
    """An array of Python objects as one of words or numbers, where it is one."""
    values = array.ravel().tolist()
    if any(value is None for value in values):
        raise FedamdError(f"{where}: value {values.index(None)} is missing")
    kinds = ((str, str), (bool | int | np.integer, np.int64), (bool | int | float | np.number, np.float64))
    for members, kind in kinds:
        if values and all(isinstance(value, members) for value in values):
            return array.astype(kind)
    found = sorted({type(value).__name__ for value in values})
    raise FedamdError(f"{where} holds values of the types {', '.join(found)}; numbers or words are expected")


def _is_number(value: Any) -> bool:
    try:
        return isinstance(float(value), float)
    except (TypeError, ValueError):
        return False


def _is(value: Any, module: str, name: str) -> bool:
    """Whether it is an instance of a class whose module may not be installed."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def _named(reading: Reading, column: str) -> str:
    return f"{reading.where}, column '{column}'"
