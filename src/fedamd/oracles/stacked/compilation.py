"""The Triton kernels of a network, compiled side by side and beside what comes next: one by one, that takes seconds.

A kernel is compiled by a call, on zeros. What goes wrong in one is returned rather than raised: kernels that cannot run
here fail again, and are told of, where they are needed.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Lock

import torch
from torch import Tensor

from fedamd import triton_here
from fedamd.oracles.stacked.convolution import ConvReLUPool, Geometry
from fedamd.oracles.stacked.layers import Layer, Saved

THREADS = 16
AHEAD = 0.05  # seconds that a job has before the next one starts beside it
USUAL = 64  # samples of a batch: the kernel of losses serves as many as from the power of two before
Call = Callable[[], object]

_LOSS = Lock()  # so that what one call compiles, another of the same kernel finds


class Compilation:
    """Jobs done where `like` is, each in a thread of its own if there are so many: calls one after the other.

    A kernel is first translated in Python, where threads only take turns. So they start one by one, and what takes
    longest after that should come first.
    """

    def __init__(self, jobs: Iterable[Sequence[Call]], like: Tensor) -> None:
        begun = triton_here.begin(like.device)

        def do(job: Sequence[Call]) -> None:
            with torch.cuda.device_of(like):  # type: ignore[no-untyped-call]
                for call in job:
                    call()

        def start() -> list[Future[None]]:
            begun.compiler.exception()  # which is told of by the calls
            started = []
            with ThreadPoolExecutor(THREADS, "compilation") as threads:
                for job in jobs:
                    started.append(threads.submit(do, job))
                    wait(started[-1:], AHEAD)
            return started

        starter = ThreadPoolExecutor(1, "compilations")
        self._started = starter.submit(start)
        starter.shutdown(wait=False)

    def wait(self) -> list[BaseException]:
        """What went wrong, when all is done."""
        return [error for job in self._started.result() if (error := job.exception()) is not None]


class _Layers:
    """Calls of layers' kernels, for one model and a batch of this length; `rows` are the samples."""

    def __init__(self, layers: Sequence[Layer], rows: Tensor, length: int) -> None:
        self._layers, self._rows, self._length = layers, rows, length
        self._shapes = [rows.shape[1:], *(layer.shape for layer in layers)]
        self._sizes = [layer.size for layer in layers]

    def forward(self, number: int) -> None:
        inputs = self._rows.new_zeros(1, *self._shapes[number], self._length)
        self._layers[number].forward(self._own(number), inputs)

    def backward(self, number: int) -> None:
        if not self._sizes[number]:
            return  # nothing to fill in
        upstream, saved = self._left(number)
        self._layers[number].backward(self._own(number), saved, upstream, self._own(number))

    def input_gradient(self, number: int) -> None:
        if not any(self._sizes[:number]):
            return  # no gradient goes further back
        upstream, saved = self._left(number)
        self._layers[number].input_gradient(self._own(number), saved, upstream)

    def _own(self, number: int) -> Tensor:
        """Among the other layers' parameters, as it will be."""
        return self._rows.new_zeros(1, sum(self._sizes)).split_with_sizes(self._sizes, 1)[number]

    def _left(self, number: int) -> tuple[Tensor, Saved]:
        """Outputs, and what the backward pass needs, in the shapes that one sample has on the CPU, in float64: there
        are no kernels for that, so nothing waits for those of the forward pass."""
        alone = torch.zeros(1, *self._shapes[number], 1, dtype=torch.float64, device="cpu")
        outputs, saved = self._layers[number].forward(alone.new_zeros(1, self._sizes[number]), alone)

        def batch(values: Tensor) -> Tensor:
            dtype = self._rows.dtype if values.is_floating_point() else values.dtype
            return self._rows.new_zeros(*values.shape[:-1], self._length, dtype=dtype)

        return batch(outputs), tuple(map(batch, saved))


def compile_layer_kernels(layers: Sequence[Layer], rows: Tensor, backwards: Mapping[int, bool]) -> Compilation:
    """Every layer's kernels for batches of these lengths, forwards, and for some backwards; `rows` are the samples.

    Fused blocks have kernels of their own. The others share theirs, so that one call finds what another has compiled.
    """
    jobs: dict[tuple[str, Hashable], list[Call]] = defaultdict(list)
    for length, both in backwards.items():
        calls = _Layers(layers, rows, length)
        for way in (calls.forward, calls.input_gradient, calls.backward) if both else (calls.forward,):
            for number, layer in enumerate(layers):
                alone = (length, number) if isinstance(layer, ConvReLUPool) else None
                jobs[way.__name__, alone].append(partial(way, number))
        for name, call in zip(("loss", "gather"), _sample_kernels(rows, layers[-1].shape[0], length), strict=True):
            jobs[name, None].append(call)
    longest_first = sorted(jobs, key=lambda job: job[1] is None)
    return Compilation([jobs[job] for job in longest_first], rows)


def compile_sample_kernels(rows: Tensor, classes: int, length: int) -> Compilation:
    """Those where a network meets its samples, which `rows` are, for a batch of this length."""
    return Compilation([[call] for call in _sample_kernels(rows, classes, length)], rows)


def _sample_kernels(rows: Tensor, classes: int, length: int) -> Sequence[Call]:
    from fedamd.oracles.stacked import triton_samples

    def numbers() -> Tensor:
        return torch.zeros(1, length, dtype=torch.int64, device=rows.device)

    def loss() -> None:
        logits, weights = rows.new_zeros(1, classes, length), rows.new_zeros(1, length)
        with _LOSS:
            triton_samples.cross_entropy(logits, numbers()[0], numbers(), weights)

    return [loss, lambda: triton_samples.gather(rows, numbers())]


def compile_graph_kernels(rows: Tensor, classes: int) -> Compilation:
    """Every other kernel of networks that are graphs, on the smallest of images like `rows`, and the usual losses."""
    from fedamd.oracles.stacked import triton_columns as columns
    from fedamd.oracles.stacked import triton_group_norm as norm

    everywhere, geometry = Geometry((1, 2, 2), 1, (2, 2)), Geometry((1, 2, 2), 1, (2, 2), (2, 2))

    def images(*shape: int, dtype: torch.dtype = rows.dtype) -> Tensor:
        return rows.new_zeros(1, *shape, 2, dtype=dtype)

    def kept() -> norm.Kept:
        return norm.Kept(images(1, 2, 2), images(1, 2, 2), images(1), images(1), rectified=True)

    def weight() -> Tensor:
        return rows.new_ones(1, 1)

    calls: list[Call] = [  # the longest first
        lambda: norm.forward(images(1, 2, 2), weight(), weight(), 1, 1e-5, None, True),
        lambda: norm.input_gradient(kept(), weight(), images(1, 2, 2), 1, False),
        _sample_kernels(rows, classes, USUAL)[0],
        lambda: columns.fold(images(4), everywhere, 2),
        lambda: columns.fold(images(4), geometry, 2),
        lambda: columns.largest_back(images(1, 1, 1), images(1, 1, 1, dtype=torch.uint8), geometry),
        lambda: columns.largest(images(1, 2, 2), geometry),
        lambda: norm.parameter_gradient(kept(), images(1, 2, 2), weight(), weight(), 1),
        lambda: columns.unfold(images(1, 2, 2), geometry),
    ]
    return Compilation([[call] for call in calls], rows)
