"""Partitioners: ways to share the training samples of a data set among M clients.

A partitioner is a small frozen object that holds its options; calling it with a data set, the number of clients and a
seed gives the partition. A request that cannot be met is refused at once, with the numbers that would work.
"""

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedamd.data.base import Clients, Dataset, Partition
from fedamd.data.classes_per_client import apportion, assign_pieces
from fedamd.data.files import read_arrays
from fedamd.data.seeding import generator
from fedamd.data.virtual import VirtualPartition
from fedamd.errors import FedamdError, at_work
from fedamd.files import read_text
from fedamd.registry import Registry, check_options, parameters_of

Indices = NDArray[np.int64]


class Partitioner(Protocol):
    """Shares the training samples of a data set among clients."""

    def __call__(self, dataset: Dataset, clients: int, seed: int) -> Clients:
        """The partition for this data set, M clients and seed."""
        ...


@dataclass(frozen=True)
class ByClasses:
    """Every client holds samples of exactly `classes_per_client` classes, the paper's split (two classes each).

    Each class is cut into pieces of nearly one size, a client gets pieces of distinct classes, and every sample is used
    once. Where the samples of every class divide evenly all clients are of equal size (Fashion-MNIST, M = 100: 600
    each); elsewhere nothing is dropped, and sizes differ as little as the cut of whole classes allows.
    """

    classes_per_client: int = 2  # so many kinds of label a client has

    def __post_init__(self) -> None:
        _at_least_one("classes_per_client", self.classes_per_client)

    def __call__(self, dataset: Dataset, clients: int, seed: int) -> Partition:
        _at_least_one("the number of clients", clients)
        rng = generator(seed)
        pools = _samples_by_class(dataset, rng)
        pieces = apportion([len(pool) for pool in pools], clients, self.classes_per_client, rng)
        held = assign_pieces(pieces, clients, self.classes_per_client, rng)
        owned: list[list[Indices]] = [[] for _ in range(clients)]
        for pool, holders in zip(pools, held, strict=True):
            for client, piece in zip(holders, np.array_split(pool, len(holders)), strict=True):
                owned[client].append(piece)
        return _partition([rng.permutation(np.concatenate(parts)) for parts in owned])


@dataclass(frozen=True)
class Dirichlet:
    """Each class is shared in proportions drawn from Dirichlet(α): small α, few classes a client (Hsu et al., 2019).

    A client left with fewer than `min_size` samples takes the rest, at random, from the largest clients.
    """

    alpha: float = 0.5  # α: the smaller, the more clients differ
    min_size: int = 1  # samples that every client has at least

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1e6:
            raise FedamdError(f"the Dirichlet alpha must be above 0 and at most 1e6; got {self.alpha}")
        _at_least_one("min_size", self.min_size)

    def __call__(self, dataset: Dataset, clients: int, seed: int) -> Partition:
        _enough(dataset, clients, self.min_size)
        rng = generator(seed)
        owned: list[list[Indices]] = [[] for _ in range(clients)]
        for pool in _samples_by_class(dataset, rng):
            shares = rng.dirichlet(np.full(clients, self.alpha))
            cuts = (shares.cumsum()[:-1] * len(pool)).astype(np.int64).clip(0, len(pool))
            for parts, piece in zip(owned, np.split(pool, cuts), strict=True):
                parts.append(piece)
        return _partition(self._fill([rng.permutation(np.concatenate(parts)) for parts in owned]))

    def _fill(self, owned: list[Indices]) -> list[Indices]:
        """Every step fills a client or empties a donor down to `min_size`, so it ends after at most 2M of them."""
        sizes = np.array([len(samples) for samples in owned])
        while sizes.min() < self.min_size:
            poor, rich = int(sizes.argmin()), int(sizes.argmax())
            moved = min(self.min_size - sizes[poor], sizes[rich] - self.min_size)
            owned[poor] = np.concatenate([owned[poor], owned[rich][-moved:]])
            owned[rich] = owned[rich][:-moved]
            sizes[poor] += moved
            sizes[rich] -= moved
        return owned


@dataclass(frozen=True)
class Iid:
    """The shuffled samples in M parts, whose sizes differ by at most one."""

    def __call__(self, dataset: Dataset, clients: int, seed: int) -> Partition:
        _enough(dataset, clients, 1)
        return _partition(np.array_split(generator(seed).permutation(len(dataset.inputs)), clients))


@dataclass(frozen=True)
class Lists:
    """The user's own lists of sample numbers, one a client: in Python, a JSON file `[[0, 5], [1, 2, 3], …]`, or
    an NPZ file whose array `owners` has the client of each sample (−1: nobody's).

    A sample may be left out, but belongs to one client at most.
    """

    source: str | Path | Sequence[Sequence[int]]  # the lists, or a JSON file of them

    def __call__(self, dataset: Dataset, clients: int, seed: int) -> Partition:  # noqa: ARG002 - nothing is drawn
        lists = _read_lists(Path(self.source)) if isinstance(self.source, str | Path) else self.source
        if len(lists) != clients:
            raise FedamdError(f"{self._origin} has {len(lists)} clients, but {clients} are asked for")
        owner: dict[int, int] = {}
        for client, samples in enumerate(lists):
            if len(samples) == 0:
                raise FedamdError(f"{self._origin} gives client {client} no samples; every client needs at least one")
            for sample in samples:
                self._claim(owner, sample, client, len(dataset.inputs))
        return Partition.of([[int(sample) for sample in samples] for samples in lists])

    def _claim(self, owner: dict[int, int], sample: object, client: int, population: int) -> None:
        if isinstance(sample, bool) or not isinstance(sample, int | np.integer):
            raise FedamdError(f"{self._origin} gives client {client} the sample {sample!r}, not a whole number")
        if not 0 <= sample < population:
            raise FedamdError(
                f"{self._origin} gives client {client} the sample {sample}; they go from 0 to {population - 1}"
            )
        if sample in owner:
            raise FedamdError(
                f"{self._origin} gives the sample {sample} to client {owner[int(sample)]} and to {client}"
            )
        owner[int(sample)] = client

    @property
    def _origin(self) -> str:
        return f"the partition {self.source}" if isinstance(self.source, str | Path) else "the list of lists"


@dataclass(frozen=True)
class Natural:
    """The clients the data set itself has, as the synthetic problems do."""

    def __call__(self, dataset: Dataset, clients: int, seed: int) -> Partition:  # noqa: ARG002 - nothing is drawn
        if dataset.clients is None:
            raise FedamdError(f"{dataset.name} has no clients of its own; choose another partitioner, such as iid")
        if len(dataset.clients) != clients:
            raise FedamdError(
                f"{dataset.name} has {len(dataset.clients)} clients of its own, but {clients} are asked for"
            )
        return dataset.clients


@dataclass(frozen=True)
class Virtual:
    """`samples_per_client` samples each, computed on the fly: for federations too large to store (VirtualPartition)."""

    samples_per_client: int = 100  # the same for all

    def __post_init__(self) -> None:
        _at_least_one("samples_per_client", self.samples_per_client)

    def __call__(self, dataset: Dataset, clients: int, seed: int) -> VirtualPartition:
        return VirtualPartition(clients, self.samples_per_client, len(dataset.inputs), seed)


@dataclass(frozen=True)
class Usual:
    """The clients the data set itself has; else two classes a client; else, where there are no classes, at random."""

    def __call__(self, dataset: Dataset, clients: int, seed: int) -> Clients:
        kind = Natural if dataset.clients is not None else ByClasses if dataset.classes else Iid
        return kind()(dataset, clients, seed)


_OURS: dict[str, Callable[..., Partitioner]] = {
    "auto": Usual,
    "classes": ByClasses,
    "dirichlet": Dirichlet,
    "iid": Iid,
    "lists": Lists,
    "natural": Natural,
    "virtual": Virtual,
}


@dataclass(frozen=True)
class _Own:
    """A user's partitioner; the lists of sample numbers it returns are checked as those of `Lists`."""

    name: str
    share: Callable[..., Clients | Sequence[Sequence[int]]]

    def __call__(self, dataset: Dataset, clients: int, seed: int) -> Clients:
        with at_work(f"the partitioner {self.name}"):
            shared = self.share(dataset, clients, seed)
        return Lists(shared)(dataset, clients, seed) if isinstance(shared, Sequence) else shared


def _adopted(name: str, found: Any) -> Callable[..., Partitioner]:
    """A user's own: a class like those above, or a function of (dataset, clients, seed) and its options."""
    if not callable(found):
        raise FedamdError(f"{name} is a {type(found).__name__}, not a partitioner")

    def make(**options: Any) -> Partitioner:
        is_class = isinstance(found, type)
        check_options(f"the partitioner {name}", found, options, given=() if is_class else _called_with(found))
        return _Own(name, found(**options) if is_class else functools.partial(found, **options))

    return make


def _called_with(function: Callable[..., Any]) -> list[str]:
    """The names a function has for the data set, the number of clients and the seed."""
    return list(parameters_of("the partitioner", function))[:3]


PARTITIONERS: Registry[Callable[..., Partitioner]] = Registry("partitioner", _OURS, _adopted)


def partitioner(name: str, **options: Any) -> Partitioner:
    """The partitioner of that name with these options, or the user's own "package.module:object"."""
    make = PARTITIONERS.find(name, "partition.name")
    check_options(f"the partitioner {name}", make, options)
    return make(**options)


def _at_least_one(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise FedamdError(f"{name} is a whole number of at least 1; got {value!r}")


def _enough(dataset: Dataset, clients: int, min_size: int) -> None:
    _at_least_one("the number of clients", clients)
    samples = len(dataset.inputs)
    if clients * min_size > samples:
        raise FedamdError(
            f"{dataset.name} has {samples} samples, too few for {clients} clients of at least {min_size} each; "
            f"at most {samples // min_size} clients are possible"
        )


def _samples_by_class(dataset: Dataset, rng: np.random.Generator) -> list[Indices]:
    """The shuffled sample numbers of every class that occurs."""
    if dataset.classes < 1:
        raise FedamdError(f"{dataset.name} has no class labels to share samples by; choose iid or natural")
    labels = dataset.targets.cpu().numpy()
    return [rng.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]


def _partition(owned: Sequence[Indices]) -> Partition:
    return Partition.of([samples.tolist() for samples in owned])


def _read_lists(path: Path) -> list[list[Any]]:
    if path.suffix == ".npz":
        return _read_owners(path)
    text = read_text(path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FedamdError(f"the partition {path} is not JSON: {error}") from error
    if not isinstance(content, list) or not all(isinstance(samples, list) for samples in content):
        raise FedamdError(
            f"the partition {path} must be a list of lists of sample numbers, such as [[0, 5], [1, 2, 3]]"
        )
    return content


def _read_owners(path: Path) -> list[list[Any]]:
    owners = read_arrays(path).get("owners")
    if owners is None or owners.ndim != 1 or owners.dtype.kind not in "iu" or len(owners) == 0:
        raise FedamdError(f"the partition {path} needs an array owners of whole numbers: the client of each sample")
    if owners.min() < -1 or owners.max() >= len(owners):
        raise FedamdError(f"the partition {path}: an owner is a client's number, from 0 up, or −1 for nobody")
    lists: list[list[Any]] = [[] for _ in range(int(owners.max()) + 1)]
    for sample, client in enumerate(owners.tolist()):
        if client >= 0:
            lists[client].append(sample)
    return lists
