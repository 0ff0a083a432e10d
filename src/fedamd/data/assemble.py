"""Makes a `Dataset` of samples as people have them: labels numbered, clients and tests told apart, all checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedamd.data.adapters import Reading, Samples, npz_samples, plain_array, samples_of
from fedamd.data.base import ClientTests, Dataset, Partition
from fedamd.data.checks import check, check_finite
from fedamd.data.holdout import held_out
from fedamd.data.labels import Targets, numbered_targets
from fedamd.errors import FedamdError

Array = NDArray[Any]

NOBODY = -1
DEFAULT_TEST_SHARE = 0.2  # held out where no test samples are given


@dataclass(frozen=True)
class Owned:
    """Who owns each sample, by number (−1: nobody), and what the clients are called (nothing where by number only)."""

    owners: NDArray[np.int64]
    names: tuple[str, ...]
    clients: int


def dataset_of(
    data: Any,
    targets: Any = None,
    *,
    test: Any = None,
    test_share: float | None = None,
    test_seed: int = 0,
    clients: Any = None,
    target: str | None = None,
    client: str | None = None,
    columns: Sequence[str] | None = None,
    classes: int | None = None,
    tokens: bool = False,
    name: str = "data",
) -> Dataset:
    """A data set from arrays, lists, frames, files and other libraries' data sets.

    data, targets   two arrays; or `data` alone: a pair of arrays, a torch.utils.data.Dataset, a Hugging Face dataset, a
                    pandas frame, or the path of a CSV or NPZ file
    test            the test samples, in any of these forms; without them, `test_share` of the data (a fifth unless
                    said otherwise) is held out, of every client the same share; `test_seed` says which
    clients         who owns each training sample: a name or number for each, or one list of sample numbers a client
    target, client  the columns with the target and with the owner, for a frame, a Hugging Face data set or CSV
    columns         the columns that are inputs; all others by default
    classes         how many there are, where not all labels 0 … C − 1 occur; 0 makes a regression of whole numbers
    tokens          whole numbers among the inputs are tokens, and stay whole
    """
    reading = Reading(name if targets is not None else _called(data, name), target, client, columns, tokens)
    tested = None
    if targets is None and _is_npz(data):
        train, tested = npz_samples(Path(data), tokens)
    else:
        train = samples_of(data, targets, reading)
    if test is not None:
        tested = samples_of(test, None, replace(reading, where=_called(test, f"{name} (test)")))
    if clients is not None:
        train = replace(train, owners=_owners_given(clients, len(train)))
    return assembled(name, train, tested, test_share, test_seed, classes)


def dataset_of_clients(
    parts: Sequence[Any] | Mapping[Any, Any],
    *,
    tests: Sequence[Any] | Mapping[Any, Any] | None = None,
    test: Any = None,
    test_share: float | None = None,
    test_seed: int = 0,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    classes: int | None = None,
    tokens: bool = False,
    name: str = "data",
) -> Dataset:
    """A data set from one part a client, in a list or by name, each in any form that `dataset_of` takes.

    `tests` holds the clients' own test sets (of all or some, in a list or by name); together they are the test set.
    `test` is one that belongs to nobody. Without either, `test_share` of every client's samples is held out.
    """
    if test is not None and tests is not None:
        raise FedamdError(f"{name}: give test (shared by all) or tests (each client's own), not both")
    reading = Reading(name, target, None, columns, tokens)
    train = _joined(_by_name(parts, name), reading, "client")
    tested = None
    if tests is not None:
        tested = _joined(_by_name(tests, name), reading, "the test set of client")
    elif test is not None:
        tested = samples_of(test, None, replace(reading, where=f"{name} (test)"))
    return assembled(name, train, tested, test_share, test_seed, classes)


def assembled(
    name: str, train: Samples, test: Samples | None, share: float | None, seed: int, classes: int | None
) -> Dataset:
    """Samples that were read, as a data set; a share of them becomes the test samples where none are given."""
    _check_rows(name, "training", train)
    if test is not None:
        if share is not None:
            raise FedamdError(f"{name}: it has test samples, so test_share would do nothing; leave one of them out")
        _check_rows(name, "test", test)
    owned = None if train.owners is None else _numbered(train.owners)
    targets = numbered_targets(train.targets, None if test is None else test.targets, classes, name)
    if test is None or targets.test is None:
        return check(_split(name, train.inputs, targets, owned, DEFAULT_TEST_SHARE if share is None else share, seed))
    whole = Dataset(
        name,
        train.inputs,
        targets.train,
        test.inputs.to(train.inputs.dtype),
        targets.test,
        targets.classes,
        None if owned is None else _partition(owned.owners, owned.clients),
        class_names=targets.names,
        client_names=() if owned is None else owned.names,
    )
    if test.owners is not None and train.owners is not None:
        owners = _known(name, test.owners, train.owners)
        whole = replace(whole, client_tests=ClientTests(whole.test_inputs, whole.test_targets, owners))
    return check(whole)


def _split(name: str, inputs: Tensor, targets: Targets, owned: Owned | None, share: float, seed: int) -> Dataset:
    """Without test samples: a share of the training samples becomes them, and keeps its owners."""
    owners = np.zeros(len(inputs), dtype=np.int64) if owned is None else owned.owners
    out = held_out(owners, share, seed, name)
    mask = torch.from_numpy(out)
    test_inputs, test_targets = inputs[mask], targets.train[mask]
    return Dataset(
        name,
        inputs[~mask],
        targets.train[~mask],
        test_inputs,
        test_targets,
        targets.classes,
        None if owned is None else _partition(owners[~out], owned.clients),
        class_names=targets.names,
        client_names=() if owned is None else owned.names,
        client_tests=None if owned is None else ClientTests(test_inputs, test_targets, torch.from_numpy(owners[out])),
    )


def _numbered(owners: Array) -> Owned:
    """Clients in the order of their names (or numbers); numbers 0 … M − 1 stay as they are, and −1 is nobody."""
    if owners.dtype.kind in "iu":
        owners = owners.astype(np.int64)
        found = np.unique(owners[owners != NOBODY])
        if np.array_equal(found, np.arange(len(found))):
            return Owned(owners, (), len(found))
        return Owned(np.where(owners == NOBODY, NOBODY, np.searchsorted(found, owners)), _words(found), len(found))
    found, numbers = np.unique(owners, return_inverse=True)
    return Owned(numbers.astype(np.int64), _words(found), len(found))


def _known(name: str, owners: Array, known: Array) -> Tensor:
    """The numbers of the test samples' owners, each of whom must own training samples too."""
    strangers = sorted(set(owners.tolist()) - set(known.tolist()))
    if strangers:
        raise FedamdError(f"{name}: client {strangers[0]} has test samples but no training samples")
    joined = _numbered(np.concatenate([known, owners])).owners
    return torch.from_numpy(joined[len(known) :])


def _partition(owners: NDArray[np.int64], clients: int) -> Partition:
    order = np.argsort(owners, kind="stable")
    order = order[owners[order] != NOBODY]
    offsets = np.searchsorted(owners[order], np.arange(clients + 1))
    return Partition(torch.from_numpy(order.astype(np.int64)), torch.from_numpy(offsets.astype(np.int64)))


def _owners_given(clients: Any, samples: int) -> Array:
    """One owner for each sample, as it is; or lists of sample numbers, one a client, turned into that."""
    first = next(iter(clients), None) if isinstance(clients, list | tuple) else None
    if first is None or isinstance(first, str) or not hasattr(first, "__len__"):
        return plain_array(clients, "clients")
    owners = np.full(samples, NOBODY, dtype=np.int64)
    for client, numbers in enumerate(clients):
        if len(numbers) == 0:
            raise FedamdError(f"clients: client {client} has no samples; every client needs at least one")
        for sample in plain_array(numbers, f"clients: client {client}").tolist():
            if not isinstance(sample, int) or not 0 <= sample < samples:
                raise FedamdError(
                    f"clients: client {client} is given the sample {sample!r}; samples are 0 to {samples - 1}"
                )
            if owners[sample] != NOBODY:
                raise FedamdError(f"clients: the sample {sample} is given to client {owners[sample]} and to {client}")
            owners[sample] = client
    return owners


def _by_name(parts: Sequence[Any] | Mapping[Any, Any], name: str) -> dict[Any, Any]:
    if not isinstance(parts, Mapping | list | tuple) or not parts:
        raise FedamdError(f"{name}: one part a client is expected, in a list or by name; got {type(parts).__name__}")
    return dict(parts) if isinstance(parts, Mapping) else dict(enumerate(parts))


def _joined(parts: dict[Any, Any], reading: Reading, whose: str) -> Samples:
    """The parts of all clients, one after the other."""
    read = {
        key: samples_of(part, None, replace(reading, where=f"{reading.where}, {whose} {key}"))
        for key, part in parts.items()
    }
    first = next(iter(read.values()))
    for key, one in read.items():
        if len(one) == 0:
            raise FedamdError(f"{reading.where}, {whose} {key} has no samples")
        if one.inputs.shape[1:] != first.inputs.shape[1:] or one.targets.shape[1:] != first.targets.shape[1:]:
            raise FedamdError(
                f"{reading.where}, {whose} {key} has samples of shape {tuple(one.inputs.shape[1:])}; those of the "
                f"first are {tuple(first.inputs.shape[1:])}"
            )
        _check_rows(reading.where, f"{whose} {key}", one)
    owners = [np.full(len(one), key) for key, one in read.items()]
    return Samples(
        torch.cat([one.inputs for one in read.values()]),
        np.concatenate([one.targets for one in read.values()]),
        np.concatenate(owners),
    )


def _check_rows(name: str, part: str, samples: Samples) -> None:
    """Before anything is split off, so that a sample's number is the one the user knows it by."""
    if samples.inputs.dim() == 0 or len(samples) == 0:
        raise FedamdError(f"{name}: there are no {part} samples")
    for what, one in (("targets", samples.targets), ("owners", samples.owners)):
        if one is not None and np.ndim(one) == 0:
            raise FedamdError(f"{name}: the {what} of {part} samples must be a word or number for each")
    numbers = {"inputs": len(samples), "targets": len(samples.targets)}
    if samples.owners is not None:
        numbers["owners"] = len(samples.owners)
    if len(set(numbers.values())) > 1:
        told = ", ".join(f"{count} {what}" for what, count in numbers.items())
        raise FedamdError(f"{name}: {part} samples come with {told}; the numbers must be equal")
    check_finite(f"{name}: the input of {part} sample", samples.inputs)


def _called(source: Any, name: str) -> str:
    return str(source) if isinstance(source, str | Path) else name


def _is_npz(source: Any) -> bool:
    return isinstance(source, str | Path) and Path(source).suffix == ".npz"


def _words(found: Array) -> tuple[str, ...]:
    return tuple(map(str, found.tolist()))
