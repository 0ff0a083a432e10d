"""An oracle whose gradient is recorded once for each shape as a CUDA graph, and replayed.

For models so large that recording a role's whole local loop would take longer than it saves, for batches in pieces, and
for clients that take many different numbers of steps. All graphs work in the same memory: one stack of models to read
and one of gradients to write, as long as the longest so far, and one pool for what lies between. On a CPU, where
nothing can be recorded, the same is computed anew.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor

from fedamd.oracles.base import Batch, Oracle, PackedOracle

MOST_GRAPHS = 12  # the one not used for longest goes first


def rounded_up(rows: int) -> int:
    """The next of 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, …: at most a quarter more than asked for."""
    step = 1 << max(0, rows.bit_length() - 3)
    return -(-rows // step) * step


def few_sizes(rows: int, most: int) -> int:
    """For what is left of a stack of `most` rows, the next of 1, 2, 3, 4, 6, 8, 12, 16, 24, …, or all of it rounded up.

    Not below a thirty-second of all, so that there are at most twelve sizes, however large the stack.
    """
    whole = rounded_up(most)
    rows = max(rows, whole // 32)
    power = 1 << (rows - 1).bit_length()
    return min(whole, power if 4 * rows > 3 * power else power * 3 // 4)


T = TypeVar("T")


def recorded(compute: Callable[[], T], pool: Any) -> tuple[torch.cuda.CUDAGraph, T]:
    """A graph of what `compute` launches, and the tensors it returns, which every replay fills anew."""
    side = _side_stream(torch.cuda.current_device())
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # kernels are compiled and libraries initialised before the capture
        compute()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        result = compute()
    return graph, result


@cache
def _side_stream(device: int) -> torch.cuda.Stream:
    """One for all graphs of a device: cuBLAS keeps memory for every stream it was ever used on."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


class CapturedOracle:
    """Stacks of models; `reserve` says beforehand how many there will be, so that the memory need not grow."""

    def __init__(self, oracle: Oracle, most_graphs: int = MOST_GRAPHS) -> None:
        self._oracle = oracle
        self._most_graphs = most_graphs
        self._packing = oracle.packing if isinstance(oracle, PackedOracle) else None
        self._graphs: OrderedDict[tuple[int, int], _Shape] = OrderedDict()
        self._x: Tensor | None = None
        self._gradient: Tensor | None = None
        self._pool: Any = None
        self.captures = 0

    def __len__(self) -> int:
        """How many graphs there are."""
        return len(self._graphs)

    def clear(self) -> None:
        """Give all memory back."""
        self._graphs.clear()
        self._x = self._gradient = self._pool = None

    def reserve(self, rows: int, like: Tensor) -> None:
        """Room for so many models of the size, type and device of `like` (·, d)."""
        rows = rounded_up(rows)
        if self._x is None or len(self._x) < rows or self._x.dtype != like.dtype:
            self.clear()
            size = like.shape[-1] if self._packing is None else self._packing.size
            self._x, self._gradient = like.new_zeros(2, rows, size)

    def gradient(self, x: Tensor, batch: Batch, most: int = 0) -> tuple[Tensor, Tensor]:
        """∇f(x; B) and f(x; B); the models may be what is left of a stack of `most`."""
        self.reserve(max(most, len(x)), x)
        self._loaded(x)
        gradient, loss = self._replayed(batch, most)
        return self._whole(gradient, torch.zeros_like, x), loss.clone()

    def difference(self, x: Tensor, previous: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """∇f(x; B) − ∇f(previous; B) and f(x; B)."""
        difference, loss = self.gradient(x, batch)
        self._loaded(previous)
        self._subtract(self._replayed(batch)[0], difference)
        return difference, loss

    def corrected(self, g: Tensor, x: Tensor, previous: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """g − ∇f(previous; B) + ∇f(x; B) and f(x; B)."""
        gradient, loss = self.difference(x, previous, batch)
        return gradient.add_(g), loss

    def step(self, x: Tensor, eta: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """x − η·∇f(x; B) and f(x; B)."""
        stepped, (loss,) = self.descend(x, eta, [batch])
        return stepped, loss

    def descend(self, x: Tensor, eta: Tensor, batches: Sequence[Batch]) -> tuple[Tensor, list[Tensor]]:
        """Where such steps lead, one on each batch, and their losses: the models stay in their place on the way.

        Batches may have fewer rows than those before: models that come last rest where they are.
        """
        current, losses = self._loaded(x), []
        for batch in batches:
            rows = len(batch.samples)
            gradient, loss = self._replayed(batch, len(x))
            current[:rows] -= gradient.mul_(eta[:rows])  # rounded as x − η·g is anywhere else
            losses.append(loss.clone())
        return self._whole(current, torch.clone, x), losses

    def loss(self, x: Tensor, batch: Batch) -> Tensor:
        """f(x; B) alone."""
        return self._oracle.loss(x, batch)

    def _loaded(self, x: Tensor) -> Tensor:
        """The models where graphs read them."""
        self.reserve(len(x), x)
        assert self._x is not None
        place = self._x[: len(x)]
        if self._packing is None:
            return place.copy_(x)
        self._packing.pack(x, place)
        return place

    def _whole(self, results: Tensor, others: Callable[..., Tensor], x: Tensor) -> Tensor:
        """A copy for all parameters: for those that are not packed, what `others` makes of the models."""
        if self._packing is None:
            return results.clone()
        whole = others(x, memory_format=torch.contiguous_format)
        self._packing.unpack(results, whole)
        return whole

    def _subtract(self, results: Tensor, whole: Tensor) -> None:
        """Take them off the parameters they belong to."""
        if self._packing is None:
            whole -= results
        else:
            self._packing.subtract(results, whole)

    def _replayed(self, batch: Batch, most: int = 0) -> tuple[Tensor, Tensor]:
        """Gradients and losses of the loaded models where the graph leaves them: the next call overwrites them."""
        assert self._gradient is not None
        rows, width = batch.samples.shape
        key = (few_sizes(rows, max(most, rows)), width)
        if key not in self._graphs:
            self._graphs[key] = self._captured(key, batch)
            self.captures += 1
            if len(self._graphs) > self._most_graphs:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(key)
        return self._gradient[:rows], self._graphs[key](batch)[:rows]

    def _captured(self, key: tuple[int, int], like: Batch) -> "_Shape":
        assert self._x is not None
        assert self._gradient is not None
        if self._pool is None and self._x.is_cuda:
            self._pool = torch.cuda.graph_pool_handle()
        rows, width = key
        batch = Batch(*(values.new_zeros(rows, width) for values in _tensors(like)))
        return _Shape(self._oracle, self._x[:rows], self._gradient[:rows], batch, self._pool)


class _Shape:
    """The gradient of so many models on batches of one width."""

    def __init__(self, oracle: Oracle, x: Tensor, gradient: Tensor, batch: Batch, pool: Any) -> None:
        self._batch = batch

        def compute() -> Tensor:
            if isinstance(oracle, PackedOracle):
                return oracle.gradient_into(gradient, x, batch)
            result, loss = oracle.gradient(x, batch)
            gradient.copy_(result)
            return loss

        self._compute = compute
        self._graph: torch.cuda.CUDAGraph | None = None
        self._loss = gradient.new_empty(len(x))
        if x.is_cuda:
            self._graph, self._loss = recorded(compute, pool)

    def __call__(self, batch: Batch) -> Tensor:
        for static, values in zip(_tensors(self._batch), _tensors(batch), strict=True):
            static[: len(values)].copy_(values)
        if self._graph is None:
            return self._compute()
        self._graph.replay()
        return self._loss


def _tensors(batch: Batch) -> list[Tensor]:
    return [values for values in (batch.samples, batch.weights, batch.keys) if values is not None]
