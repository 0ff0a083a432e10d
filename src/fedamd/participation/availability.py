"""Clients that come and go: the cohort is drawn from those that are there, and nobody else can answer."""

import csv
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from fedamd import draw
from fedamd.draw import Purpose
from fedamd.errors import FedamdError
from fedamd.participation.samplers import Sampler, some_of


class AvailableSampler(Sampler):
    """A clients, uniformly, of those that can be reached; all of them where they are fewer."""

    @abstractmethod
    def reachable(self, t: int, seed: int, client: int) -> bool:
        """Whether this client is there in round t."""

    def cohort(self, t: int, seed: int, count: int, sizes: Sequence[int]) -> tuple[int, ...]:
        """Possibly nobody."""
        return some_of([i for i in range(len(sizes)) if self.reachable(t, seed, i)], count, t, seed)


@dataclass(frozen=True)
class MarkovSampler(AvailableSampler):
    """Every client is a Markov chain of its own: it leaves and comes back with these probabilities a round.

    In the long run a client is there a share `comes / (comes + leaves)` of the time, which is also the probability that
    it is there in round 0. During the start-up (round −1) everyone is.
    """

    leaves: float = 0.1  # probability that a client that is there is gone in the next round
    comes: float = 0.3  # probability that one that is gone is back

    def __post_init__(self) -> None:
        if not 0 <= self.leaves <= 1:
            raise FedamdError(f"leaves must be a probability between 0 and 1, not {self.leaves}")
        if not 0 < self.comes <= 1:
            raise FedamdError(f"comes must be a probability above 0, not {self.comes}: who leaves would never return")

    def reachable(self, t: int, seed: int, client: int) -> bool:
        """The chain at t, found by looking back to the last round that decides by itself.

        One number u a round drives the chain: an absent client comes if u < comes, a present one stays if
        u < 1 − leaves. Below both it is there and above both it is not, wherever it was before.
        """
        return t < 0 or _chain(self, t, seed, client)

    def decided(self, u: float) -> bool | None:
        """Whether the client is there after a round with this number; None where that depends on the round before."""
        there = (u < self.comes, u < 1 - self.leaves)
        return there[0] if there[0] == there[1] else None


@lru_cache(maxsize=1 << 16)
def _chain(chain: MarkovSampler, t: int, seed: int, client: int) -> bool:
    turned = False  # a number between the two thresholds keeps a client as it was, or turns it where they cross
    for back in range(t, 0, -1):
        u = draw.uniform(seed, Purpose.AVAILABILITY, back, client)
        known = chain.decided(u)
        if known is not None:
            return known ^ turned
        turned ^= u < chain.comes  # only an absent client comes below `comes`: this number swaps the two
    share = chain.comes / (chain.comes + chain.leaves)
    return (draw.uniform(seed, Purpose.AVAILABILITY, 0, client) < share) ^ turned


@dataclass(frozen=True)
class TraceSampler(AvailableSampler):
    """Clients are there when a file says so: CSV with the columns client, from, to (rounds from ≤ t < to).

    A client that the file does not name is never there; during the start-up (round −1) all that it names are.
    """

    path: str  # of the file

    def __post_init__(self) -> None:
        read_trace(Path(self.path))  # a mistake in it is told before anything runs

    def reachable(self, t: int, seed: int, client: int) -> bool:  # noqa: ARG002  a trace has no chance in it
        """By the file."""
        spans = read_trace(Path(self.path)).get(client, ())
        return bool(spans) if t < 0 else any(begin <= t < end for begin, end in spans)

    def cohort(self, t: int, seed: int, count: int, sizes: Sequence[int]) -> tuple[int, ...]:
        """Of clients the federation has."""
        unknown = [client for client in read_trace(Path(self.path)) if not 0 <= client < len(sizes)]
        if unknown:
            raise FedamdError(f"{self.path} names client {unknown[0]}, but the clients are 0 … {len(sizes) - 1}")
        return super().cohort(t, seed, count, sizes)


@cache
def read_trace(path: Path) -> dict[int, list[tuple[int, int]]]:
    """When each client is there."""
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, row in enumerate(table(path, ("client", "from", "to")), start=2):
        try:
            client, begin, end = (int(row[name]) for name in ("client", "from", "to"))
        except ValueError:
            raise FedamdError(f"{path}, line {number}: client, from and to must be whole numbers") from None
        if begin >= end:
            raise FedamdError(f"{path}, line {number}: from ({begin}) must be below to ({end})")
        spans[client].append((begin, end))
    return dict(spans)


def table(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a CSV file that has exactly these columns."""
    try:
        if not path.is_file():
            raise FedamdError(f"there is no file {path}")
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if sorted(reader.fieldnames or []) != sorted(columns):
                raise FedamdError(f"{path}: the first line must name the columns {', '.join(columns)}")
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FedamdError(f"cannot read {path}: {error}") from None
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise FedamdError(f"{path}, line {number}: expected {len(columns)} values")
    return rows
