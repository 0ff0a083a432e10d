"""Roles with different numbers of steps, played side by side: what all of them wait for is computed in one call.

On a GPU a step of many clients takes little longer than a step of one. So every role's function runs until it asks for
gradients; when all of them wait, they are answered together, and one that has come to its end asks no more. Whatever a
function does, it does it on its own clients alone. The functions have threads of their own, of which one runs at a
time; the oracle is called in the caller's.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from queue import SimpleQueue
from typing import Generic, Literal, TypeVar

import torch
from torch import Tensor

from fedamd.algorithms.base import Role
from fedamd.engines.base import Gradients, joined
from fedamd.engines.captured import CapturedOracle
from fedamd.oracles.base import Batch

LOOPS = 3  # of one function that are worth a graph each
MOST_ROLES = 256  # at work at once
T = TypeVar("T")
_Answer = tuple[Tensor, list[Tensor]]  # gradients, points or losses; and the losses seen on the way, batch by batch


class Loops:
    """Which functions were played on what batches: to tell those whose loops are too many to record each of them."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, set[tuple[int, ...]]] = defaultdict(set)

    def add(self, role: Role, widths: tuple[int, ...]) -> None:
        """The role is played on batches of these widths."""
        if not self.many(role):
            self._seen[_code(role)].add(widths)

    def many(self, role: Role) -> bool:
        """Whether that was so for too many kinds of batches, in whatever rounds."""
        return len(self._seen[_code(role)]) > LOOPS


def _code(role: Role) -> Hashable:
    """One for all functions that were made alike, say for every number of steps, and without what they hold."""
    return getattr(role.run, "__code__", role.run)


@dataclass(frozen=True, eq=False)
class _Question:
    """The gradient or the loss at x (n, d) on the one batch, or where steps on all of them lead."""

    what: Literal["gradient", "loss", "descent"]
    x: Tensor
    batches: Sequence[Batch]  # of one width
    eta: Tensor | None = None  # (n, ·), of a descent

    @property
    def kind(self) -> Hashable:
        """Questions of one kind are answered together."""
        return self.what, self.batches[0].samples.shape[-1], None if self.eta is None else self.eta.shape[-1]


class SideBySide:
    """Plays roles side by side, over one oracle."""

    def __init__(self, oracle: CapturedOracle) -> None:
        self._oracle = oracle

    def play(self, plays: Sequence[Callable[[Gradients], T]]) -> list[T]:
        """What each of these functions, at most `MOST_ROLES`, returns, given an oracle to ask."""
        actors = [_Actor(play) for play in plays]
        rows = 1  # the most models that were asked about at once
        try:
            for actor in actors:
                actor.begin(self._threads)
            while waiting := [(actor, actor.question) for actor in actors if actor.question]:
                rows = max(rows, sum(len(question.x) for _, question in waiting))
                for actor, answer in _answered(waiting, self._oracle, rows):
                    actor.resume(answer)
        finally:
            for actor in actors:
                actor.leave()
        return [actor.result() for actor in actors]

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        """One for each role that is at work, on the device of the thread that asks for them first (-1: on none)."""
        initialised = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        device = torch.cuda.current_device() if initialised else -1
        return ThreadPoolExecutor(MOST_ROLES, "role", torch.cuda.set_device, (device,))


def within(items: Sequence[T], weights: Sequence[int], most: int) -> list[list[T]]:
    """The items, in order, in parts that can be played at once: none weighs more than `most`, unless it is one item."""
    parts: list[list[T]] = []
    left = 0
    for item, weight in zip(items, weights, strict=True):
        if not parts or weight > left or len(parts[-1]) == MOST_ROLES:
            parts.append([])
            left = most
        parts[-1].append(item)
        left -= weight
    return parts


class _Left(BaseException):
    """Ends a function that waits for an answer which will not come: nothing that it may handle itself."""


class _Actor(Generic[T]):
    """A function that runs up to its next question, and goes on with the answer. It takes the actor for its oracle."""

    def __init__(self, play: Callable[[Gradients], T]) -> None:
        self.question: _Question | None = None
        self._play = play
        self._asked: SimpleQueue[_Question | None] = SimpleQueue()
        self._answers: SimpleQueue[_Answer | None] = SimpleQueue()
        self._future: Future[T] | None = None

    def begin(self, threads: ThreadPoolExecutor) -> None:
        self._future = threads.submit(self._play, self)
        self._future.add_done_callback(lambda _: self._asked.put(None))
        self._listen()

    def resume(self, answer: _Answer) -> None:
        self._answers.put(answer)
        self._listen()

    def leave(self) -> None:
        """Answer no more, and wait for its end."""
        self._answers.put(None)
        if self._future is not None:
            wait([self._future])

    def result(self) -> T:
        """What the function returned, or raised."""
        assert self._future is not None
        return self._future.result()

    def _listen(self) -> None:
        self.question = self._asked.get()
        if self.question is None:
            self.result()

    def _ask(self, question: _Question) -> _Answer:
        """In the function's own thread."""
        self._asked.put(question)
        answer = self._answers.get()
        if answer is None:
            raise _Left
        return answer

    def gradient(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """∇f(x; B) and f(x; B)."""
        gradient, (loss,) = self._ask(_Question("gradient", x, [batch]))
        return gradient, loss

    def difference(self, x: Tensor, previous: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """∇f(x; B) − ∇f(previous; B) and f(x; B)."""
        gradient, loss = self.gradient(x, batch)
        return gradient - self.gradient(previous, batch)[0], loss

    def corrected(self, g: Tensor, x: Tensor, previous: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """g − ∇f(previous; B) + ∇f(x; B) and f(x; B)."""
        difference, loss = self.difference(x, previous, batch)
        return g + difference, loss

    def step(self, x: Tensor, eta: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """x − η·∇f(x; B) and f(x; B)."""
        stepped, (loss,) = self.descend(x, eta, [batch])
        return stepped, loss

    def descend(self, x: Tensor, eta: Tensor, batches: Sequence[Batch]) -> _Answer:
        """Where such steps lead, one on each batch, and their losses."""
        losses: list[Tensor] = []
        for _, alike in groupby(batches, key=lambda batch: batch.samples.shape[-1]):
            x, seen = self._ask(_Question("descent", x, list(alike), eta.expand(len(x), -1)))
            losses += seen
        return x, losses

    def loss(self, x: Tensor, batch: Batch) -> Tensor:
        """f(x; B) alone."""
        loss, _ = self._ask(_Question("loss", x, [batch]))
        return loss


def _answered(
    waiting: Iterable[tuple[_Actor[T], _Question]], oracle: CapturedOracle, rows: int
) -> Iterator[tuple[_Actor[T], _Answer]]:
    """Everyone with the answer; all are worked out before the first is given."""
    kinds: dict[Hashable, list[tuple[_Actor[T], _Question]]] = defaultdict(list)
    for actor, question in waiting:
        kinds[question.kind].append((actor, question))
    answers: list[tuple[_Actor[T], _Answer]] = []
    for alike in kinds.values():
        alike.sort(key=lambda asked: len(asked[1].batches), reverse=True)  # who takes most steps comes first
        own = _answers([question for _, question in alike], oracle, rows)
        answers += zip((actor for actor, _ in alike), own, strict=True)
    return iter(answers)


def _answers(questions: Sequence[_Question], oracle: CapturedOracle, rows: int) -> Iterator[_Answer]:
    """To questions of one kind, those with most batches first: rows of a batch are of those that are still at work."""
    first, counts = questions[0], [len(question.x) for question in questions]
    x = joined([question.x for question in questions])
    batches = [
        _batch([question.batches[step] for question in questions if len(question.batches) > step])
        for step in range(len(first.batches))
    ]
    losses: list[Tensor] = []
    if first.what == "descent":
        eta = joined([question.eta for question in questions if question.eta is not None])
        results, losses = oracle.descend(x, eta, batches)
    elif first.what == "gradient":
        results, loss = oracle.gradient(x, batches[0], rows)
        losses = [loss]
    else:
        results = oracle.loss(x, batches[0])
    start = 0
    for question, count in zip(questions, counts, strict=True):
        own = slice(start, start + count)
        yield results[own], [loss[own] for loss in losses[: len(question.batches)]]
        start += count


def _batch(batches: Sequence[Batch]) -> Batch:
    keys = [batch.keys for batch in batches if batch.keys is not None]
    samples, weights = ([getattr(batch, name) for batch in batches] for name in ("samples", "weights"))
    return Batch(joined(samples), joined(weights), joined(keys) if keys else None)
