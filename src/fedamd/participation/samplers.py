"""Samplers of clients that are always there: uniform as in the paper, by samples, or group after group."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fedamd import draw
from fedamd.draw import Purpose
from fedamd.errors import FedamdError

_CPU = torch.device("cpu")


class Sampler(ABC):
    """Chooses the cohort 𝒜_t of every round. A frozen dataclass; its fields are options of the config."""

    @abstractmethod
    def cohort(self, t: int, seed: int, count: int, sizes: Sequence[int]) -> tuple[int, ...]:
        """At most `count` (A) of the clients 0 … M−1 that own `sizes` samples, in increasing order."""

    def reachable(self, t: int, seed: int, client: int) -> bool:  # noqa: ARG002  of use to those who come and go
        """Whether this client can answer in round t, be it in the cohort or not (round −1 is the start-up)."""
        return True


@dataclass(frozen=True)
class UniformSampler(Sampler):
    """A clients, uniformly and without replacement: the paper's."""

    def cohort(self, t: int, seed: int, count: int, sizes: Sequence[int]) -> tuple[int, ...]:
        """Time does not grow with the number of clients."""
        return draw.sample(len(sizes), count, seed, Purpose.COHORT, t)


@dataclass(frozen=True)
class WeightedSampler(Sampler):
    """A clients without replacement, each draw with probability proportional to n_i among those that are left.

    Efraimidis & Spirakis, "Weighted random sampling with a reservoir", Information Processing Letters 97 (2006): the
    clients with the A smallest −log(u_i)/n_i.
    """

    def cohort(self, t: int, seed: int, count: int, sizes: Sequence[int]) -> tuple[int, ...]:
        """Every client gets a number of its own."""
        waits = -uniforms(seed, Purpose.COHORT, t, len(sizes)).clamp_min(2.0**-25).log() / torch.tensor(sizes)
        return tuple(sorted(waits.argsort(stable=True)[:count].tolist()))


@dataclass(frozen=True)
class CyclicSampler(Sampler):
    """Round t draws uniformly from group t mod `groups`; client i is in group i mod `groups`.

    Cyclic client participation (CyCP): Cho et al., "On the convergence of federated averaging with cyclic client
    participation", ICML 2023.
    """

    groups: int = 4  # of clients, whose turns come one after the other

    def __post_init__(self) -> None:
        if isinstance(self.groups, bool) or not isinstance(self.groups, int) or self.groups < 1:
            raise FedamdError(f"groups must be a whole number of at least 1, not {self.groups!r}")

    def cohort(self, t: int, seed: int, count: int, sizes: Sequence[int]) -> tuple[int, ...]:
        """Fewer than A where the group has fewer."""
        groups = min(self.groups, len(sizes))
        return some_of(range(t % groups, len(sizes), groups), count, t, seed)


def uniforms(seed: int, purpose: Purpose, t: int, count: int) -> torch.Tensor:
    """A number in [0, 1) for each of the clients 0 … count − 1 in round t."""
    word = draw.words([draw.bits(seed, purpose, t)], _CPU)
    return draw.uniforms(draw.keys(word, torch.arange(count)), 1, torch.float64)[:, 0]


def some_of(clients: Sequence[int], count: int, t: int, seed: int) -> tuple[int, ...]:
    """At most `count` of these clients, uniformly."""
    chosen = draw.sample(len(clients), min(count, len(clients)), seed, Purpose.COHORT, t)
    return tuple(clients[place] for place in chosen)
