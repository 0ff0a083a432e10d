"""A partition for massive federations: who owns what is computed, not stored, so a million clients cost no memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import torch
from torch import Tensor

from fedamd.draw import Purpose, bits, keys, words
from fedamd.errors import FedamdError

_OWNERSHIP = -1  # stands where other draws have their round, which is never negative: ownership is drawn once
_POSITIVE = torch.iinfo(torch.int64).max  # clears the sign bit


@dataclass(frozen=True)
class EqualSizes(Sequence[int]):
    """n, M times, in constant memory."""

    size: int
    length: int

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> "EqualSizes": ...

    def __getitem__(self, index: int | slice) -> "int | EqualSizes":
        chosen = range(self.length)[index]
        return self.size if isinstance(chosen, int) else EqualSizes(self.size, len(chosen))


@dataclass(frozen=True)
class VirtualPartition:
    """Client m owns `samples_per_client` samples: a hash of (seed, m, position), modulo the size of the data set.

    Clients share samples, and a client may own a sample twice, as in a draw with replacement.
    """

    clients: int  # M
    samples_per_client: int  # n_m, the same for all
    population: int  # how many samples the data set has
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("clients", "samples_per_client", "population"):
            if getattr(self, name) < 1:
                raise FedamdError(f"a virtual partition needs {name} of at least 1; got {getattr(self, name)}")

    @property
    def sizes(self) -> EqualSizes:
        """n_1 … n_M."""
        return EqualSizes(self.samples_per_client, self.clients)

    def __len__(self) -> int:
        """M."""
        return self.clients

    def samples(self, client: int) -> Tensor:
        """The sample numbers client m owns."""
        return self.gather(torch.tensor([client]), torch.arange(self.samples_per_client).unsqueeze(0)).squeeze(0)

    def gather(self, clients: Tensor, positions: Tensor) -> Tensor:
        """The sample numbers (N, B) at `positions` (N, B) of the lists of `clients` (N,)."""
        beginning = words([bits(self.seed, Purpose.CHOICE, _OWNERSHIP)], positions.device)
        return torch.remainder(keys(beginning, clients.unsqueeze(-1), positions) & _POSITIVE, self.population)

    def to(self, device: torch.device | str) -> "VirtualPartition":  # noqa: ARG002 - nothing is stored anywhere
        """Itself: it answers on the device of the question."""
        return self
