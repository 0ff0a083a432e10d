"""The contract between an algorithm and whatever executes it.

A client is a pure function of what it was sent, its batches and a gradient oracle: a `Role`. The server is a generator
that yields an `Exchange` (which clients play which role, and what they are sent), receives the replies, and returns the
next `State`. An algorithm knows nothing of batching, devices, processes or networks; an engine knows nothing of the
algorithm it executes.

A role's function is written for ONE client whose vectors are (d,). An engine may call it once for many clients, with
vectors (n, d) and numbers (n, 1): arithmetic must act on the last axis only (`v.sum(-1, keepdim=True)`, not `v.sum()`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor

from fedamd import draw
from fedamd.algorithms.by_theory import KnownProblem, TheoryValues
from fedamd.algorithms.parameters import described_parameters, with_parameters
from fedamd.algorithms.space import Space
from fedamd.draw import Purpose
from fedamd.errors import FedamdError
from fedamd.oracles.base import Batch
from fedamd.participation.samplers import Sampler, UniformSampler
from fedamd.transfer import upload

Size = int | Literal["full"]


class Values:
    """Named values, read as attributes."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:  # only reached for a name that is not there
        raise AttributeError(f"there is no value named '{name}'; there are: {', '.join(self.__dict__) or 'none'}")

    def items(self) -> Iterable[tuple[str, Any]]:
        return self.__dict__.items()


class State(Values):
    """What the server remembers from round to round: the model `x` and whatever tensors the algorithm adds."""

    def next(self, **changes: Tensor) -> "State":
        """The same, with some values replaced or added."""
        return State(**(self.__dict__ | changes))

    def get(self, name: str, default: Tensor) -> Tensor:
        """A value that is not there before its first round."""
        value: Tensor = self.__dict__.get(name, default)
        return value


# --- the client's side ---


class Gradient(Protocol):
    """∇f_i on a client's batches, as a role sees it. The engine keeps the losses for the records."""

    def __call__(self, x: Tensor, batch: Batch) -> Tensor:
        """∇f_i(x; B)."""
        ...

    def difference(self, x: Tensor, previous: Tensor, batch: Batch) -> Tensor:
        """∇f_i(x; B) − ∇f_i(previous; B); exactly zero, and no gradient spent, where both are the same tensor."""
        ...

    def corrected(self, g: Tensor, x: Tensor, previous: Tensor, batch: Batch) -> Tensor:
        """g − ∇f_i(previous; B) + ∇f_i(x; B), the step of recursive estimators: an engine may have a faster way."""
        return g + self.difference(x, previous, batch)

    def step(self, x: Tensor, eta: Tensor, batch: Batch) -> Tensor:
        """x − η·∇f_i(x; B): an engine may have a faster way to take this plain step of SGD."""
        return x - eta * self(x, batch)

    def descend(self, x: Tensor, eta: Tensor, batches: Sequence[Batch]) -> Tensor:
        """Where such steps lead from x, one on each batch."""
        for batch in batches:
            x = self.step(x, eta, batch)
        return x


class Task(Values):
    """What a client works on: what it was sent, what it remembers, and random numbers of its own."""

    memory: Values  # what this client kept at its last reply; zeros at first
    fresh: Tensor  # (1,): 1 where the client holds nothing yet, else 0
    uniforms: Callable[[int], Tensor]  # `uniforms(count)`: that many numbers in [0, 1), addressed by round and client


@dataclass(frozen=True)
class Compressed:
    """A vector that travels in fewer than 32 bits per number."""

    vector: Tensor
    bits: int


class Reply:
    """What a client sends back, and what it keeps for itself (`memory`) once the server has accepted the reply."""

    def __init__(self, memory: Mapping[str, Tensor] | None = None, **values: Tensor | Compressed) -> None:
        self.memory = dict(memory or {})
        self.bits = {name: value.bits for name, value in values.items() if isinstance(value, Compressed)}
        self.values = {name: v.vector if isinstance(v, Compressed) else v for name, v in values.items()}


@dataclass(frozen=True)
class Batches:
    """A request for `count` random batches of `size` samples each of the client's data."""

    count: int
    size: Size

    def samples(self, owned: int) -> int:
        """How many samples that is for a client that owns that many."""
        return self.count * (owned if self.size == "full" else min(self.size, owned))


@dataclass(frozen=True)
class Order:
    """A role, the clients that play it, their batches, and what they are all sent."""

    role: "Role"
    clients: tuple[int, ...]
    batches: tuple[Batches, ...]
    payload: dict[str, Tensor | float]


@dataclass(frozen=True, eq=False)
class Role:
    """One kind of work a client can be asked to do."""

    name: str
    run: Callable[[Task, Sequence[Batch], Gradient], Reply]
    gradients: int = 1  # gradients per sample of its batches, as the paper counts them (a difference is two)
    reports_loss: bool = True  # whether its loss enters the round's training loss
    memory: tuple[str, ...] = ()  # names of the vectors a client keeps between rounds

    def to(self, clients: Iterable[int], *batches: Batches, **payload: Tensor | float) -> Order:
        """Ask these clients: vectors and numbers in `payload` are sent to each of them."""
        return Order(self, tuple(clients), batches, payload)


def role(
    name: str, *, gradients: int = 1, reports_loss: bool = True, memory: tuple[str, ...] = ()
) -> Callable[[Callable[[Any, Sequence[Batch], Gradient], Reply]], Role]:
    """Turn a client function into a role; `memory` names the vectors that a client keeps from round to round."""

    def decorate(run: Callable[[Any, Sequence[Batch], Gradient], Reply]) -> Role:
        return Role(name, run, gradients, reports_loss, memory)

    return decorate


# --- the server's side ---


class Exchange:
    """One trip to the clients and back. Roles of one exchange have different names."""

    def __init__(self, *orders: Order) -> None:
        self.orders = orders


class Replies:
    """The accepted replies of one role, in the order of `clients`; a reply that never came is simply not there.

    `replies.delta` is the (n, d) stack of the values named `delta`.
    """

    def __init__(
        self,
        clients: Sequence[int],
        values: Mapping[str, Tensor],
        losses: Tensor | None = None,
        bits: Mapping[str, int] | None = None,
        rejected: Sequence[int] = (),
    ) -> None:
        self.clients = tuple(clients)
        self.values = dict(values)
        self.losses = losses  # (n,), or None where the role evaluated nothing
        self.bits = dict(bits or {})  # per client, for the values that travelled compressed
        self.rejected = tuple(rejected)  # clients whose reply was dropped: not finite, or of the wrong shape

    def __len__(self) -> int:
        return len(self.clients)

    def __getattr__(self, name: str) -> Tensor:
        try:
            return self.__dict__["values"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(f"no client replied with a value named '{name}'") from None


Answers = Mapping[str, Replies]
Dialogue = Generator[Exchange, Answers, State]


@dataclass(frozen=True)
class Federation:
    """What the server knows of its clients."""

    clients: int  # M
    cohort: int  # A
    sizes: Sequence[int]  # n_m
    sampler: Sampler = UniformSampler()  # noqa: RUF009  it is frozen

    @property
    def everyone(self) -> range:
        return range(self.clients)

    @cached_property
    def samples(self) -> int:
        """n_1 + … + n_M."""
        return sum(self.sizes)

    def weights(self, clients: Sequence[int], by: Literal["uniform", "samples"], like: Tensor) -> Tensor:
        """w_i of these clients as a column (n, 1): 1 each as in the paper, or n_i·M/n, so that all M sum to M."""
        if by == "uniform":
            return torch.ones(len(clients), 1, dtype=like.dtype, device=like.device)
        mean_size = self.samples / self.clients
        return upload([self.sizes[i] / mean_size for i in clients], like.device, like.dtype).unsqueeze(-1)


@dataclass(frozen=True)
class Turn:
    """What the server has at hand when round t begins."""

    t: int
    seed: int
    federation: Federation
    cohort: tuple[int, ...] = field(init=False)  # 𝒜: at most A clients, chosen by the federation's sampler
    _drawn: set[tuple[int, ...]] = field(init=False, default_factory=set, repr=False, compare=False)

    def __post_init__(self) -> None:
        federation = self.federation
        chosen = federation.sampler.cohort(self.t, self.seed, federation.cohort, federation.sizes)
        object.__setattr__(self, "cohort", chosen)

    def coin(self, p: float, client: int = -1, index: int = 0) -> bool:
        """Bernoulli(p), one for every client (or one for the round); a round's second coin has index 1, and so on."""
        return self._uniform("coin", Purpose.COIN, client, index) < p

    def choose(self, clients: Sequence[int], index: int = 0) -> int:
        """One of these clients, uniformly; a second choice of a round has index 1, and so on."""
        return clients[int(self._uniform("choose", Purpose.CHOICE, None, index) * len(clients))]

    def _uniform(self, method: str, purpose: Purpose, client: int | None, index: int) -> float:
        """The number at an address, which gives one draw only: asked again, it would give the same one."""
        address = (*(() if client is None else (client,)), *((index,) if index else ()))
        if (used := (purpose, *address)) in self._drawn:
            raise FedamdError(
                f"turn.{method} was called twice in round {self.t} with the same address, and would give the same draw "
                f"again: give the second one an index of its own, as in turn.{method}(…, index={index + 1})"
            )
        self._drawn.add(used)
        return draw.uniform(self.seed, purpose, self.t, *address)


class Algorithm(ABC):
    """A federated method: frozen hyper-parameters, and the server's side as generators."""

    space: ClassVar[Space] = {}  # where its hyper-parameters are searched when it is tuned
    parameters: ClassVar[dict[str, str]] = {}  # what each hyper-parameter is, as its `param` says
    has_theory_for: ClassVar[tuple[str, ...]] = ()  # hyper-parameters that a config may leave to `by_theory`

    def __init_subclass__(cls, **options: Any) -> None:
        """`help()` of a method lists its hyper-parameters."""
        super().__init_subclass__(**options)
        cls.parameters = described_parameters(cls)
        cls.__doc__ = with_parameters(vars(cls).get("__doc__"), cls.parameters)

    def start(self, x: Tensor, federation: Federation) -> Dialogue:  # noqa: ARG002  for those who ask clients
        """The state before round 0. A generator too, for a method that asks its clients first."""
        yield from ()
        return State(x=x)

    @abstractmethod
    def round(self, state: State, turn: Turn) -> Dialogue:
        """Round t: from x_t to x_{t+1}."""

    def evaluated(self, state: State) -> Tensor:
        """The model that is evaluated: x itself, unless a method reports a point other than where it continues."""
        return state.x  # type: ignore[no-any-return]

    def by_theory(self, names: Sequence[str], problem: KnownProblem) -> TheoryValues:
        """Numbers for these hyper-parameters, which a config leaves to theory; here they are at their defaults."""
        raise NotImplementedError(f"{type(self).__name__} has theory for {', '.join(names)}: define by_theory")

    def worked_out(self, cohort: int) -> dict[str, float]:  # noqa: ARG002  for those who have something to tell
        """Numbers that the method finds by itself, for the records, such as the best probability for this cohort."""
        return {}


def mean(stack: Tensor, weights: Tensor | None = None) -> Tensor:
    """The mean of the rows, weighted by a column of weights if one is given."""
    return stack.mean(0) if weights is None else (weights.T @ stack)[0] / weights.sum()
