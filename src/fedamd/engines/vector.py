"""The stacked engine: all clients of a role, of all runs in lockstep, in one call.

Orders of the same role with the same batches are merged, whichever runs they come from; each row keeps its own model,
data, cohort, seed and learning rate. On CUDA the role's whole local loop is captured in a graph for each number of
rows, rounded up so that changing numbers of miners seldom capture anew.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice, pairwise
from queue import SimpleQueue
from typing import Any

import torch
from torch import Tensor

from fedamd.algorithms.base import Answers, Order, Replies, Role
from fedamd.engines.base import Engine, Request, accepted
from fedamd.engines.stack import Assembly, Outcome, Stack, play_stacked, stack_orders
from fedamd.oracles.base import Oracle


class VectorEngine(Engine):
    """Plays stacks of clients.

    `samples_at_once` bounds how many samples one gradient call works on. With `workers`, an oracle for each, chunks of
    clients are played side by side in threads: for oracles that release Python's lock and use one core each.
    """

    def __init__(
        self, oracle: Oracle, samples_at_once: int, micro_batch: int | None = None, workers: Sequence[Oracle] = ()
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
        self._graphs: dict[Hashable, _Graph] = {}
        self._pool: Any = None  # graphs are replayed one after the other and can share their memory

    def execute(self, requests: Sequence[Request]) -> list[Answers]:
        with self._at_work():
            return self._execute(requests)

    def _at_work(self) -> AbstractContextManager[None]:
        return nullcontext() if self._threads is None else _one_thread()

    def _execute(self, requests: Sequence[Request]) -> list[Answers]:
        answers: list[dict[str, Replies]] = [{} for _ in requests]
        groups = _merge(requests)
        stacks = [
            stack_orders([requests[index] for index, _ in group], [order for _, order in group], self._oracle.keyed)
            for group in groups
        ]
        outcomes = self._play([group[0][1].role for group in groups], stacks)
        for group, outcome, finite in zip(groups, outcomes, _finite(outcomes), strict=True):
            for (index, order), part, fine in _divided(group, outcome, finite):
                answers[index][order.role.name] = accepted(
                    requests[index].site, order.clients, part.values, part.held, part.losses, part.bits, fine
                )
        for request, answer in zip(requests, answers, strict=True):
            for order in request.exchange.orders:
                answer.setdefault(order.role.name, Replies((), {}))
        return list(answers)

    def evaluate(self, xs: Sequence[Tensor]) -> list[tuple[float, float]]:
        with self._at_work():
            losses, accuracies = self._oracle.evaluate(torch.stack(list(xs)))
            return [(loss, accuracy) for loss, accuracy in torch.stack([losses, accuracies], -1).tolist()]

    def _play(self, roles: Sequence[Role], stacks: Sequence[Stack]) -> list[Outcome]:
        """Every role with its stack, in chunks of rows. The largest come first, so that workers end together."""
        assemblies = [Assembly(len(stack)) for stack in stacks]
        chunks = [
            _Chunk(role, stack, start, stop, assembly)
            for role, stack, assembly in zip(roles, stacks, assemblies, strict=True)
            for start, stop in pairwise(self._bounds(stack))
        ]
        waiting: SimpleQueue[_Chunk | None] = SimpleQueue()
        for chunk in sorted(chunks, key=lambda chunk: chunk.sample_count, reverse=True):
            waiting.put(chunk)

        def work(oracle: Oracle) -> None:
            waiting.put(None)  # behind all chunks, once for every worker
            for chunk in iter(waiting.get, None):
                chunk.assembly.put(chunk.start, self._play_chunk(chunk, oracle))

        if self._threads is None:
            work(self._oracle)
        else:
            list(self._threads.map(work, self._workers))
        return [assembly.whole() for assembly in assemblies]

    def _bounds(self, stack: Stack) -> list[int]:
        """Where the chunks of a stack begin and end: as even as can be, and as many for one worker as for another."""
        widest = max((samples.shape[-1] for samples in stack.samples), default=1)
        rows = max(1, self._samples_at_once // min(widest, self._micro_batch or widest))
        workers = max(1, len(self._workers))
        count = min(len(stack), -(-len(stack) // (rows * workers)) * workers)
        return [len(stack) * chunk // count for chunk in range(count + 1)]

    def _play_chunk(self, chunk: "_Chunk", oracle: Oracle) -> Outcome:
        role, stack = chunk.role, chunk.stack.rows(chunk.start, chunk.stop)
        if not stack.noise.is_cuda:
            return play_stacked(role, stack, oracle, self._micro_batch)
        rows = _rounded_up(len(stack))
        shapes = tuple(tuple(tensor.shape[1:]) for tensor in stack.tensors())
        key = (role, rows, shapes)
        if key not in self._graphs:
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            self._graphs[key] = _Graph(
                lambda padded: play_stacked(role, padded, oracle, self._micro_batch), stack, rows, self._pool
            )
        return self._graphs[key](stack)


@dataclass(frozen=True)
class _Chunk:
    """Some rows of a stack, and where their outcome belongs."""

    role: Role
    stack: Stack
    start: int
    stop: int
    assembly: Assembly

    @property
    def sample_count(self) -> int:
        return (self.stop - self.start) * self.stack.samples_each


class _Graph:
    """A role's local loop for a fixed number of rows, captured once and replayed."""

    def __init__(self, play: Callable[[Stack], Outcome], like: Stack, rows: int, pool: Any) -> None:
        self._static = like.map([_padded(tensor, rows) for tensor in like.tensors()])
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # kernels are compiled and libraries initialised before the capture
            play(self._static)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool):
            self._outcome = play(self._static)

    def __call__(self, stack: Stack) -> Outcome:
        for static, tensor in zip(self._static.tensors(), stack.tensors(), strict=True):
            static[: len(stack)].copy_(tensor)
        self._graph.replay()
        return self._outcome.map([tensor[: len(stack)].clone() for tensor in self._outcome.tensors()])


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep PyTorch's own threads asleep: waking them costs more than they save, and they are in the workers' way."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _padded(tensor: Tensor, rows: int) -> Tensor:
    """The tensor with its first row repeated up to so many rows."""
    return torch.cat([tensor, tensor[:1].expand(rows - len(tensor), *tensor.shape[1:])]).contiguous()


def _rounded_up(rows: int) -> int:
    """The next of 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, …: at most a quarter more than asked for."""
    step = 1 << max(0, rows.bit_length() - 3)
    return -(-rows // step) * step


def _merge(requests: Sequence[Request]) -> list[list[tuple[int, Order]]]:
    """Orders that can be played as one stack, each with the index of its request."""
    merged: dict[Hashable, list[tuple[int, Order]]] = defaultdict(list)
    for index, request in enumerate(requests):
        for order in request.exchange.orders:
            if order.clients:
                merged[order.role, order.batches, tuple(order.payload)].append((index, order))
    return list(merged.values())


def _finite(outcomes: Sequence[Outcome]) -> list[list[bool]]:
    """Which rows of each outcome are finite: one transfer from the device decides for all."""
    fine = iter(torch.cat([outcome.finite for outcome in outcomes]).tolist() if outcomes else [])
    return [list(islice(fine, len(outcome.finite))) for outcome in outcomes]


def _divided(
    group: Sequence[tuple[int, Order]], outcome: Outcome, finite: Sequence[bool]
) -> Iterator[tuple[tuple[int, Order], Outcome, Sequence[bool]]]:
    """The rows of each order of a group."""
    start = 0
    for entry in group:
        stop = start + len(entry[1].clients)
        yield entry, outcome.map([tensor[start:stop] for tensor in outcome.tensors()]), finite[start:stop]
        start = stop
