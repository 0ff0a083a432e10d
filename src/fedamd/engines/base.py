"""What an engine is, and what all engines share: drawing batches, keeping losses, accepting replies."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fedamd import draw
from fedamd.algorithms.base import Answers, Exchange, Gradient, Order, Replies, Size
from fedamd.data.base import Clients
from fedamd.draw import Purpose
from fedamd.engines.client_store import ClientStore
from fedamd.engines.pieces import Cut, in_pieces
from fedamd.oracles import native
from fedamd.oracles.base import Batch, Stepper
from fedamd.oracles.native import batches as native_batches


@dataclass(frozen=True)
class Site:
    """The clients of one run: who owns which samples, what each holds, and the seed of all their draws."""

    seed: int
    clients: Clients
    store: ClientStore  # of what clients hold


@dataclass(frozen=True)
class Request:
    """One exchange of one run, with the address of its draws: round t (−1 for the start-up) and the stage in it."""

    site: Site
    t: int
    stage: int
    exchange: Exchange


class Engine(Protocol):
    """Executes exchanges. Several requests at once are several runs in lockstep; each is answered as if alone."""

    def execute(self, requests: Sequence[Request]) -> list[Answers]:
        """The replies to every request, by role name."""
        ...

    def evaluate(self, xs: Sequence[Tensor]) -> list[tuple[float, float]]:
        """Test loss and accuracy of every model."""
        ...

    def vector_bits(self, vector: Tensor) -> int:
        """What a model-sized vector costs on its way to a client."""
        return vector.numel() * vector.element_size() * 8

    def extras(self, t: int) -> Mapping[str, float]:  # noqa: ARG002  for engines that count by round
        """What else this engine has counted by the end of round t, for the record of that round."""
        return {}


class Gradients(Protocol):
    """What clients need of an oracle."""

    def gradient(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]: ...

    def difference(self, x: Tensor, previous: Tensor, batch: Batch) -> tuple[Tensor, Tensor]: ...

    def loss(self, x: Tensor, batch: Batch) -> Tensor: ...


class RecordingGradient(Gradient):
    """∇f_i over an oracle, in micro-batches if asked, remembering for each batch the loss last seen on it.

    Batches that are cut are taken `pieces_at_once`.
    """

    def __init__(self, oracle: Gradients, micro_batch: int | None = None, pieces_at_once: int = 1) -> None:
        self._oracle = oracle
        self._micro_batch = micro_batch
        self._pieces_at_once = pieces_at_once
        self._stepper = oracle if isinstance(oracle, Stepper) and micro_batch is None else None
        self._losses: dict[int, Tensor] = {}

    def __call__(self, x: Tensor, batch: Batch) -> Tensor:
        gradient, self._losses[id(batch)] = self._sum(self._oracle.gradient, batch, x)
        return gradient

    def difference(self, x: Tensor, previous: Tensor, batch: Batch) -> Tensor:
        if x is previous:
            self._see_loss(x, batch)
            return torch.zeros_like(x)
        gradient, self._losses[id(batch)] = self._sum(self._oracle.difference, batch, x, previous)
        return gradient

    def corrected(self, g: Tensor, x: Tensor, previous: Tensor, batch: Batch) -> Tensor:
        if x is previous:
            self._see_loss(x, batch)
            return g
        if self._stepper is None or isinstance(batch, Cut):
            return super().corrected(g, x, previous, batch)
        g, self._losses[id(batch)] = self._stepper.corrected(g, x, previous, batch)
        return g

    def step(self, x: Tensor, eta: Tensor, batch: Batch) -> Tensor:
        if self._stepper is None or isinstance(batch, Cut):
            return super().step(x, eta, batch)
        x, self._losses[id(batch)] = self._stepper.step(x, eta, batch)
        return x

    def descend(self, x: Tensor, eta: Tensor, batches: Sequence[Batch]) -> Tensor:
        at_once = getattr(self._stepper, "descend", None)  # where the steps need not be told one by one
        if at_once is None or any(isinstance(batch, Cut) for batch in batches):
            return super().descend(x, eta, batches)
        x, losses = at_once(x, eta, batches)
        self._losses |= {id(batch): loss for batch, loss in zip(batches, losses, strict=True)}
        return x

    def mean_loss(self) -> Tensor | None:
        """The mean over the batches, () or (n,); None where nothing was evaluated."""
        return torch.stack(list(self._losses.values())).mean(0) if self._losses else None

    def _see_loss(self, x: Tensor, batch: Batch) -> None:
        (self._losses[id(batch)],) = self._sum(lambda x, part: (self._oracle.loss(x, part),), batch, x)

    def _sum(self, compute: Callable[..., tuple[Tensor, ...]], batch: Batch, *points: Tensor) -> tuple[Tensor, ...]:
        """Over the parts of a batch: its weights sum to one, so what the parts give simply adds up."""
        if isinstance(batch, Cut):
            return in_pieces(compute, points, batch, self._pieces_at_once)
        return _summed(compute(*points, part) for part in self._parts(batch))

    def _parts(self, batch: Batch) -> list[Batch]:
        if self._micro_batch is None:
            return [batch]
        tensors = [batch.samples, batch.weights, *([] if batch.keys is None else [batch.keys])]
        parts = [torch.split(tensor, self._micro_batch, dim=-1) for tensor in tensors]
        return [Batch(*part) for part in zip(*parts, strict=True)]


def _summed(results: Iterable[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Elementwise sums of tuples of tensors."""
    total: tuple[Tensor, ...] = ()
    for result in results:
        total = tuple(a + b for a, b in zip(total, result, strict=True)) if total else result
    return total


def batch_keys(words: Tensor, clients: Tensor, count: int) -> Tensor:
    """The addresses (n·count,) of as many batches of each client (n,): all of the first client's, then the second's, …

    `words` (n,) are the addresses so far (seed, round, stage).
    """
    number = torch.arange(count, device=clients.device)
    return draw.keys(words.unsqueeze(-1), clients.unsqueeze(-1), number).flatten()


def batch_positions(keys: Tensor, owned: Sequence[int], size: Size) -> tuple[Tensor, Tensor]:
    """For every address, positions (·, size) in the data of a client that owns so many, and which of them are real."""
    by_library = keys.device.type == "cpu" and native.available() is None
    smallest = native_batches.smallest if by_library else draw.smallest
    return draw.positions(keys, owned, None if size == "full" else size, smallest)


def sample_keys(keys: Tensor, position: Tensor) -> Tensor:
    """The address of each sample's own draws in each batch: by its position in its client's data."""
    return draw.keys(keys.unsqueeze(-1), position)


def batch_weights(real: Tensor, dtype: torch.dtype) -> Tensor:
    """Every real sample of a batch weighs the same; together they weigh one."""
    return real.to(dtype) / real.sum(-1, keepdim=True)


def address(request: Request, purpose: Purpose, *rest: int) -> int:
    """The beginning of every draw's address in this request."""
    return draw.bits(request.site.seed, purpose, request.t, request.stage, *rest)


def finite_rows(stacks: Iterable[Tensor]) -> Tensor:
    """Which rows (n,) are finite in every one of these (n, ·) stacks: one entry that is not makes the sum so.

    (A row so large that its sum overflows has diverged as well.)
    """
    return torch.stack([stack.sum(-1).isfinite() for stack in stacks]).all(0)


def accepted(
    site: Site,
    clients: Sequence[int],
    values: dict[str, Tensor],
    memory: dict[str, Tensor],
    losses: Tensor | None,
    bits: dict[str, int],
    finite: Sequence[bool],
) -> Replies:
    """Drop the replies that are not finite; the clients of the others keep what they want to hold."""
    rejected = [client for client, fine in zip(clients, finite, strict=True) if not fine]
    if rejected:
        rows = torch.tensor([row for row, fine in enumerate(finite) if fine], dtype=torch.int64)
        values = {name: stack[rows] for name, stack in values.items()}
        memory = {name: stack[rows] for name, stack in memory.items()}
        losses = None if losses is None else losses[rows]
        clients = [client for client, fine in zip(clients, finite, strict=True) if fine]
    if memory and clients:
        site.store.write(clients, memory)
    return Replies(clients, values, losses, bits, rejected)


def like_x(order: Order) -> Tensor:
    """A vector of the payload: its shape, type and device are the model's."""
    return next(value for value in order.payload.values() if isinstance(value, Tensor))


def joined(parts: Sequence[Tensor]) -> Tensor:
    """One below the other; one alone is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
