"""Many clients as one: the inputs of a role for n clients, stacked, and the role played once for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock

from torch import Tensor

from fedamd import draw
from fedamd.algorithms.base import Role, Task, Values
from fedamd.engines.base import Gradients, RecordingGradient, finite_rows
from fedamd.engines.pieces import Cut
from fedamd.oracles.base import Batch


@dataclass(frozen=True)
class Stack:
    """What a role needs for n clients; every tensor has n rows."""

    sent: dict[str, Tensor]  # vectors (n, d) and numbers (n, 1)
    memory: dict[str, Tensor]  # (n, d)
    fresh: Tensor  # (n, 1)
    noise: Tensor  # (n,), the address of each client's own random numbers
    samples: list[Tensor]  # one (n, size) for every batch
    weights: list[Tensor]
    keys: list[Tensor]  # as the samples, for an oracle that is keyed; else none
    lengths: list[tuple[int, ...]]  # likewise, how many samples of each row are real
    pieces: list[int | None]  # likewise, how wide the pieces are it is to be taken in; None: whole

    def tensors(self) -> list[Tensor]:
        """All of them, in one order."""
        batches = (*self.samples, *self.weights, *self.keys)
        return [*self.sent.values(), *self.memory.values(), self.fresh, self.noise, *batches]

    def map(self, tensors: Sequence[Tensor]) -> "Stack":
        """The same stack with other tensors, given in the order of `tensors()`."""
        rest = iter(tensors)
        return Stack(
            {name: next(rest) for name in self.sent},
            {name: next(rest) for name in self.memory},
            next(rest),
            next(rest),
            [next(rest) for _ in self.samples],
            [next(rest) for _ in self.weights],
            [next(rest) for _ in self.keys],
            self.lengths,
            self.pieces,
        )

    def rows(self, start: int, stop: int) -> "Stack":
        if (start, stop) == (0, len(self)):
            return self
        part = self.map([tensor[start:stop] for tensor in self.tensors()])
        return replace(part, lengths=[lengths[start:stop] for lengths in self.lengths])

    @property
    def cut(self) -> bool:
        """Whether some batch is to be taken in pieces."""
        return any(self.pieces)

    @property
    def widths(self) -> tuple[int, ...]:
        """How many samples of one row a gradient is asked for in one call, for every batch."""
        together = zip(self.pieces, self.samples, strict=True)
        return tuple(piece or samples.shape[-1] for piece, samples in together)

    @property
    def widest(self) -> int:
        """The most samples of one row in one call."""
        return max(self.widths, default=1)

    @cached_property
    def real(self) -> list[int]:
        """How many samples each client works on, padding left out."""
        return [sum(own) for own in zip(*self.lengths, strict=True)] or [1] * len(self)

    def batches(self) -> list[Batch]:
        """As roles get them."""
        keys: Sequence[Tensor | None] = self.keys or [None] * len(self.samples)
        together = zip(self.samples, self.weights, keys, self.lengths, self.pieces, strict=True)
        return [
            Batch(samples, weights, key) if piece is None else Cut(samples, weights, key, lengths=lengths, piece=piece)
            for samples, weights, key, lengths, piece in together
        ]

    def __len__(self) -> int:
        return len(self.noise)


@dataclass(frozen=True)
class StackedReplies:
    """What n clients answered, stacked."""

    values: dict[str, Tensor]
    memory: dict[str, Tensor]
    finite: Tensor  # (n,), which rows are
    losses: Tensor | None
    bits: dict[str, int]

    def tensors(self) -> list[Tensor]:
        losses = [] if self.losses is None else [self.losses]
        return [*self.values.values(), *self.memory.values(), self.finite, *losses]

    def map(self, tensors: Sequence[Tensor]) -> "StackedReplies":
        rest = iter(tensors)
        values = {name: next(rest) for name in self.values}
        memory = {name: next(rest) for name in self.memory}
        return StackedReplies(values, memory, next(rest), None if self.losses is None else next(rest), self.bits)


class Assembly:
    """Outcomes of parts of the rows as one of all: each part is put in its place by the thread that played it."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._lock = Lock()
        self._whole: StackedReplies | None = None

    def put(self, start: int, part: StackedReplies) -> None:
        """The outcome of the rows from `start` on."""
        if len(part.finite) == self._rows:
            self._whole = part
            return
        with self._lock:
            if self._whole is None:
                self._whole = part.map([t.new_empty((self._rows, *t.shape[1:])) for t in part.tensors()])
        for whole, rows in zip(self._whole.tensors(), part.tensors(), strict=True):
            whole[start : start + len(rows)] = rows

    def whole(self) -> StackedReplies:
        """When every row is there."""
        assert self._whole is not None
        return self._whole


def play_stacked(
    role: Role, stack: Stack, oracle: Gradients, micro_batch: int | None, pieces_at_once: int = 1
) -> StackedReplies:
    """The role's function, once, for all clients of the stack."""
    width = next(iter(stack.sent.values()))

    def uniforms(count: int) -> Tensor:
        return draw.uniforms(stack.noise, count, width.dtype)

    task = Task(**stack.sent, memory=Values(**stack.memory), fresh=stack.fresh, uniforms=uniforms)
    grad = RecordingGradient(oracle, micro_batch, pieces_at_once)
    reply = role.run(task, stack.batches(), grad)
    finite = finite_rows([*reply.values.values(), *reply.memory.values()])
    return StackedReplies(reply.values, reply.memory, finite, grad.mean_loss(), reply.bits)
