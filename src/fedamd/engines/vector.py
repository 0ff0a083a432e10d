"""The stacked engine: all clients of a role, of all runs in lockstep, in one call.

Orders of the same role with the same batches are merged, whichever runs they come from; each row keeps its own model,
data, cohort, seed and learning rate. On a CPU a run's bits are its own: over an oracle whose rows depend, in their last
bits, on the rows beside them, the runs' stacks stay apart. On CUDA the role's whole local loop is captured in a graph
for each number of rows, rounded up so that changing numbers of miners seldom capture anew; of large models, for batches
in pieces, and where clients take many different numbers of steps, the gradient alone is.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, islice, pairwise
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from fedamd.algorithms.base import Answers, Order, Replies, Role
from fedamd.engines.base import Engine, Gradients, Request, accepted, like_x
from fedamd.engines.captured import MOST_GRAPHS, CapturedOracle, recorded, rounded_up
from fedamd.engines.device_memory import NoRoom, is_full, with_room
from fedamd.engines.loop import play
from fedamd.engines.pieces import PIECE
from fedamd.engines.stack import Assembly, Stack, StackedReplies, play_stacked
from fedamd.engines.stacking import Group, merged, stacked
from fedamd.engines.together import Loops, SideBySide, within
from fedamd.errors import FedamdError, UserCodeError, described, round_named
from fedamd.oracles.base import Oracle

T = TypeVar("T")
SIDE_BY_SIDE = 2  # chunks of few clients: one keeps all cores busy while the other is in Python, and no third waits
WIDTHS = 3  # of batches whose steps are recorded, each for up to MOST_GRAPHS numbers of rows
LARGE = 1 << 20  # parameters from which on a step takes so long that recording the steps one by one costs nothing


class VectorEngine(Engine):
    """Plays stacks of clients.

    `samples_at_once` bounds how many samples one gradient call works on. With `workers`, an oracle for each, chunks of
    clients are played side by side in threads: for oracles that release Python's lock and share the cores. Where the
    device runs out of memory, fewer rows are taken at once from then on. Wide batches are taken in pieces of `piece`
    samples: on CUDA, or where it is given.
    """

    def __init__(
        self,
        oracle: Oracle,
        samples_at_once: int,
        micro_batch: int | None = None,
        workers: Sequence[Oracle] = (),
        piece: int | None = None,
    ) -> None:
        self._oracle = oracle
        self._samples_at_once = samples_at_once
        self._micro_batch = micro_batch
        self._workers = workers
        self._threads = (
            # every thread is one worker: PyTorch's own threads would only get in the way of the others
            ThreadPoolExecutor(len(workers), "client", initializer=torch.set_num_threads, initargs=(1,))
            if workers
            else None
        )
        self._piece = piece
        self._captured = CapturedOracle(oracle, MOST_GRAPHS * (1 if oracle.dimension >= LARGE else WIDTHS))
        self._graphs: OrderedDict[Hashable, _Graph[Any]] = OrderedDict()  # the one not used for longest first
        self._pool: Any = None  # graphs are replayed one after the other and can share their memory
        self._captures = 0
        self._loops = Loops()
        self._side_by_side = SideBySide(self._captured)
        self._rows = 1  # of all stacks of the exchange

    def execute(self, requests: Sequence[Request]) -> list[Answers]:
        with self._at_work():
            try:
                return self._execute(requests)
            except FedamdError:
                raise
            except Exception as error:
                if is_full(error):
                    raise
                self._find_culprit(requests)
                raise _only_together(requests[0], error) from error

    def _find_culprit(self, requests: Sequence[Request]) -> None:
        """Play the clients one by one, as the reference does, so that the error is told with the client it is of."""
        for request in requests:
            for order in request.exchange.orders:
                for client in order.clients:
                    play(request, order, client, self._oracle, self._micro_batch)

    def _at_work(self) -> AbstractContextManager[None]:
        return nullcontext() if self._threads is None else _one_thread()

    def _execute(self, requests: Sequence[Request]) -> list[Answers]:
        groups, samples_at_once = merged(requests, apart=not self._oracle.exact_in_batch), self._samples_at_once
        try:
            outcomes = self._outcomes(requests, groups)
        except NoRoom:
            if len(requests) == 1:
                raise
        else:
            return self._accepted(requests, groups, outcomes)
        self._make_room()
        self._samples_at_once = samples_at_once  # it was not the samples of a call that were too many
        middle = len(requests) // 2
        return [*self._execute(requests[:middle]), *self._execute(requests[middle:])]

    def _outcomes(self, requests: Sequence[Request], groups: Sequence[Group]) -> list[StackedReplies]:
        stacks = with_room(lambda: self._stacks(requests, groups), self._make_room, len(requests))
        self._rows = sum(map(len, stacks))
        return self._play([group[0][1].role for group in groups], stacks)

    def _stacks(self, requests: Sequence[Request], groups: Sequence[Group]) -> list[Stack]:
        on_cuda = any(like_x(order).is_cuda for group in groups for _, order in group)
        piece = self._piece or (PIECE if on_cuda else None)
        return stacked(requests, groups, self._oracle.keyed, piece and min(piece, self._micro_batch or piece))

    def _accepted(
        self, requests: Sequence[Request], groups: Sequence[Group], outcomes: Sequence[StackedReplies]
    ) -> list[Answers]:
        answers: list[dict[str, Replies]] = [{} for _ in requests]
        for group, outcome, finite in zip(groups, outcomes, _finite(outcomes), strict=True):
            for (index, order), part, fine in _divided(group, outcome, finite):
                taken = (part.values, part.memory, part.losses, part.bits, fine)
                accept = partial(accepted, requests[index].site, order.clients, *taken)
                answers[index][order.role.name] = with_room(accept, self._make_room, len(requests))
        for request, answer in zip(requests, answers, strict=True):
            for order in request.exchange.orders:
                answer.setdefault(order.role.name, Replies((), {}))
        return list(answers)

    def evaluate(self, xs: Sequence[Tensor]) -> list[tuple[float, float]]:
        with self._at_work():
            if not (self._oracle.exact_in_batch or xs[0].is_cuda):
                return [(loss.item(), accuracy.item()) for loss, accuracy in map(self._oracle.evaluate, xs)]
            return [(loss, accuracy) for loss, accuracy in self._evaluated(torch.stack(list(xs))).tolist()]

    def _evaluated(self, xs: Tensor) -> Tensor:
        """(n, 2): loss and accuracy of every model of a stack."""
        if not (xs.is_cuda and self._oracle.records_evaluation):
            return _evaluation(self._oracle, [xs])
        compute = partial(_evaluation, self._oracle)
        return self._graph("evaluation", compute, [xs])([xs])[: len(xs)]

    def extras(self, t: int) -> Mapping[str, float]:  # noqa: ARG002
        """On CUDA: how many graphs are held, how many were ever captured, and the device memory taken at most."""
        if not torch.cuda.is_available() or not (self._graphs or len(self._captured)):
            return {}
        return {
            "graphs": len(self._graphs) + len(self._captured),
            "captures": self._captures + self._captured.captures,
            "device_memory": torch.cuda.max_memory_allocated(),
        }

    def _play(self, roles: Sequence[Role], stacks: Sequence[Stack]) -> list[StackedReplies]:
        """Every role with its stack, in chunks of rows. The largest come first, so that workers end together."""
        assemblies = [Assembly(len(stack)) for stack in stacks]
        for role, stack in zip(roles, stacks, strict=True):
            self._loops.add(role, stack.widths)
        chunks = [
            _Chunk(role, stack, start, stop, assembly, self._by_steps(role, stack))
            for role, stack, assembly in zip(roles, stacks, assemblies, strict=True)
            for start, stop in pairwise(self._bounds(stack))
        ]
        by_steps = [chunk for chunk in chunks if chunk.by_steps]
        for together in within(by_steps, [chunk.samples_at_once for chunk in by_steps], self._samples_at_once):
            self._play_together(together)
        waiting: SimpleQueue[_Chunk | None] = SimpleQueue()
        alone = [chunk for chunk in chunks if not chunk.by_steps]
        for chunk in sorted(alone, key=lambda chunk: chunk.sample_count, reverse=True):
            waiting.put(chunk)

        def work(oracle: Oracle) -> None:
            waiting.put(None)  # behind all chunks, once for every worker
            for chunk in iter(waiting.get, None):
                self._play_in_memory(chunk, oracle)

        if self._threads is None:
            work(self._oracle)
        else:
            list(self._threads.map(work, self._workers[: len(alone)]))
        return [assembly.whole() for assembly in assemblies]

    def _by_steps(self, role: Role, stack: Stack) -> bool:
        """Not as one loop: where numbers of steps differ, each would have to be recorded by itself."""
        recorded = stack.noise.is_cuda or self._piece is not None
        return recorded and self._oracle.dimension < LARGE and self._loops.many(role)

    def _play_together(self, chunks: Sequence["_Chunk"]) -> None:
        """Step by step, side by side; in halves where the device has no memory for all."""
        if len(chunks) == 1:
            self._play_in_memory(chunks[0], self._oracle)
            return
        try:
            plays = [partial(self._play_steps, chunk.role, chunk.rows(), False) for chunk in chunks]
            outcomes = self._side_by_side.play(plays)
        except RuntimeError as error:
            if not is_full(error):
                raise
        else:
            for chunk, outcome in zip(chunks, outcomes, strict=True):
                with_room(partial(chunk.assembly.put, chunk.start, outcome), self._make_room, 1)
            return
        self._make_room()
        self._samples_at_once = max(1, sum(chunk.samples_at_once for chunk in chunks) // 2)
        middle = len(chunks) // 2
        self._play_together(chunks[:middle])
        self._play_together(chunks[middle:])

    def _bounds(self, stack: Stack) -> list[int]:
        """Where the chunks of a stack begin and end: as even as can be, and few, so that few threads run Python."""
        rows = max(1, self._samples_at_once // min(stack.widest, self._micro_batch or stack.widest))
        count = min(len(stack), max(-(-len(stack) // rows), min(len(self._workers), SIDE_BY_SIDE)))
        if not self._workers:
            return [len(stack) * chunk // count for chunk in range(count + 1)]
        return _even(stack.real, count)

    def _play_in_memory(self, chunk: "_Chunk", oracle: Oracle) -> None:
        """Play a chunk and put its outcome in its place; in halves where the device has no memory for it."""
        rows = chunk.stop - chunk.start
        try:
            outcome = self._play_chunk(chunk, oracle)
        except RuntimeError as error:
            if not is_full(error):
                raise
            if rows == 1:
                raise NoRoom(
                    f"the device has no memory for one client of a model with {self._oracle.dimension:,} parameters on "
                    f"{chunk.stack.widest} samples at once; set micro_batch to a smaller number ({error})"
                ) from error
        else:
            with_room(partial(chunk.assembly.put, chunk.start, outcome), self._make_room, 1)
            return
        self._make_room()
        self._samples_at_once = max(1, rows // 2 * chunk.stack.widest)
        middle = chunk.start + rows // 2
        for start, stop in ((chunk.start, middle), (middle, chunk.stop)):
            self._play_in_memory(replace(chunk, start=start, stop=stop), oracle)

    def _make_room(self) -> None:
        self._graphs.clear()
        self._captured.clear()
        self._pool, self._rows = None, 1
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _play_chunk(self, chunk: "_Chunk", oracle: Oracle) -> StackedReplies:
        role, stack = chunk.role, chunk.rows()
        large = oracle.dimension >= LARGE
        if stack.cut or chunk.by_steps or (large and stack.noise.is_cuda):
            return self._play_steps(role, stack, large, self._captured)
        if not stack.noise.is_cuda:
            return play_stacked(role, stack, oracle, self._micro_batch)
        return self._play_recorded(role, stack, oracle)

    def _play_recorded(self, role: Role, stack: Stack, oracle: Oracle) -> StackedReplies:
        """With a graph of the role's whole local loop."""

        def play(padded: Sequence[Tensor]) -> StackedReplies:
            return play_stacked(role, stack.map(padded), oracle, self._micro_batch)

        outcome = self._graph(role, play, stack.tensors())(stack.tensors())
        return outcome.map([tensor[: len(stack)].clone() for tensor in outcome.tensors()])

    def _play_steps(self, role: Role, stack: Stack, large: bool, oracle: Gradients) -> StackedReplies:
        """With graphs of the gradient alone: all pieces at once of a small model, of a large one as many as rows."""
        most = max(1, self._samples_at_once // stack.widest)
        if not large:
            return play_stacked(role, stack, oracle, self._micro_batch, min(most, 1 << 12))
        self._captured.reserve(min(most, self._rows), next(iter(stack.sent.values())))
        return play_stacked(role, stack, oracle, self._micro_batch, min(most, self._rows, len(stack)))

    def _graph(self, what: Hashable, compute: Callable[[Sequence[Tensor]], T], stacks: Sequence[Tensor]) -> "_Graph[T]":
        """The graph of this computation for stacks of such shapes, recorded when it is first asked for."""
        rows = rounded_up(len(stacks[0]))
        key = (what, rows, tuple(tuple(stack.shape[1:]) for stack in stacks))
        if key not in self._graphs:
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            self._graphs[key] = _Graph(compute, stacks, rows, self._pool)
            self._captures += 1
            if len(self._graphs) > MOST_GRAPHS:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(key)
        return self._graphs[key]


@dataclass(frozen=True)
class _Chunk:
    """Some rows of a stack, and where their outcome belongs."""

    role: Role
    stack: Stack
    start: int
    stop: int
    assembly: Assembly
    by_steps: bool  # not as one loop

    def rows(self) -> Stack:
        return self.stack.rows(self.start, self.stop)

    @property
    def samples_at_once(self) -> int:
        """Of one gradient call, with all pieces of a batch that is cut."""
        widest = max((samples.shape[-1] for samples in self.stack.samples), default=1)
        return (self.stop - self.start) * widest

    @property
    def sample_count(self) -> int:
        return sum(self.stack.real[self.start : self.stop])


class _Graph(Generic[T]):
    """A computation on stacks of a fixed number of rows, recorded once and replayed."""

    def __init__(self, compute: Callable[[Sequence[Tensor]], T], like: Sequence[Tensor], rows: int, pool: Any) -> None:
        self._static = [_padded(stack, rows) for stack in like]
        self._graph, self._outcome = recorded(lambda: compute(self._static), pool)

    def __call__(self, stacks: Sequence[Tensor]) -> T:
        """What comes of these, where the graph leaves it until the next call; rows beyond theirs mean nothing."""
        for static, stack in zip(self._static, stacks, strict=True):
            static[: len(stack)].copy_(stack)
        self._graph.replay()
        return self._outcome


def _evaluation(oracle: Oracle, stacks: Sequence[Tensor]) -> Tensor:
    (models,) = stacks
    return torch.stack(oracle.evaluate(models), -1)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep PyTorch's own threads asleep: waking them costs more than they save, and they are in the workers' way."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _only_together(request: Request, error: Exception) -> UserCodeError:
    """For an error that no client has by itself."""
    roles = " and ".join(order.role.name for order in request.exchange.orders if order.clients)
    return UserCodeError(
        f"clients as {roles} in {round_named(request.t)}, stage {request.stage}, played as one stack (each by itself "
        f'works: try engine = "loop"): {described(error)}'
    )


def _padded(tensor: Tensor, rows: int) -> Tensor:
    """The tensor with its first row repeated up to so many rows."""
    return torch.cat([tensor, tensor[:1].expand(rows - len(tensor), *tensor.shape[1:])]).contiguous()


def _even(weights: Sequence[int], count: int) -> list[int]:
    """Bounds of `count` parts, none of them empty, that weigh about the same."""
    total, reached = sum(weights), [0, *accumulate(weights)]
    bounds = [0]
    for part in range(1, count):
        first, last = bounds[-1] + 1, len(weights) - (count - part)
        aim = total * part / count
        bounds.append(min(range(first, last + 1), key=lambda row: abs(reached[row] - aim)))
    return [*bounds, len(weights)]


def _finite(outcomes: Sequence[StackedReplies]) -> list[list[bool]]:
    """Which rows of each outcome are finite: one transfer from the device decides for all."""
    fine = iter(torch.cat([outcome.finite for outcome in outcomes]).tolist() if outcomes else [])
    return [list(islice(fine, len(outcome.finite))) for outcome in outcomes]


def _divided(
    group: Group, outcome: StackedReplies, finite: Sequence[bool]
) -> Iterator[tuple[tuple[int, Order], StackedReplies, Sequence[bool]]]:
    """The rows of each order of a group."""
    start = 0
    for entry in group:
        stop = start + len(entry[1].clients)
        yield entry, outcome.map([tensor[start:stop] for tensor in outcome.tensors()]), finite[start:stop]
        start = stop
