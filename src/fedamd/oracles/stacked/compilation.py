"""The Triton kernels of a network, compiled side by side and beside what comes next: one by one, that takes seconds.

A kernel is compiled by a call, on zeros. What goes wrong in one is returned rather than raised: kernels that cannot run
here fail again, and are told of, where they are needed.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial

import torch
from torch import Tensor

from fedamd import triton_here
from fedamd.oracles.stacked.convolution import Geometry
from fedamd.oracles.stacked.layers import Layer, Saved

THREADS = 16


class Compilation:
    """Calls made where `like` is, each in a thread of its own if there are so many, in this order."""

    def __init__(self, calls: Sequence[Callable[[], object]], like: Tensor) -> None:
        begun = triton_here.begin(like.device)

        def there(call: Callable[[], object]) -> None:
            wait([begun])
            with torch.cuda.device_of(like):  # type: ignore[no-untyped-call]
                call()

        threads = ThreadPoolExecutor(THREADS, "compilation")
        self._calls: list[Future[None]] = [threads.submit(there, call) for call in calls]
        threads.shutdown(wait=False)

    def wait(self) -> list[BaseException]:
        """What went wrong, when all is done."""
        return [error for call in self._calls if (error := call.exception()) is not None]


def compile_layer_kernels(layers: Sequence[Layer], rows: Tensor, length: int, backwards: bool) -> Compilation:
    """Every layer's kernels, for a batch of this length; `rows` are the samples."""
    shapes = [rows.shape[1:], *(layer.shape for layer in layers)]
    sizes = [layer.size for layer in layers]

    def own(number: int) -> Tensor:  # among the other layers' parameters, as it will be
        return rows.new_zeros(1, sum(sizes)).split_with_sizes(sizes, 1)[number]

    def forward(number: int) -> None:
        layers[number].forward(own(number), rows.new_zeros(1, *shapes[number], length))

    def left(number: int) -> tuple[Tensor, Saved]:
        """Outputs, and what the backward pass needs, in the shapes that one sample has on the CPU, in float64: there
        are no kernels for that, so nothing waits for those of the forward pass."""
        alone = torch.zeros(1, *shapes[number], 1, dtype=torch.float64, device="cpu")
        outputs, saved = layers[number].forward(alone.new_zeros(1, sizes[number]), alone)

        def batch(values: Tensor) -> Tensor:
            dtype = rows.dtype if values.is_floating_point() else values.dtype
            return rows.new_zeros(*values.shape[:-1], length, dtype=dtype)

        return batch(outputs), tuple(map(batch, saved))

    def backward(number: int) -> None:
        upstream, saved = left(number)
        layers[number].backward(own(number), saved, upstream, own(number))

    def input_gradient(number: int) -> None:
        upstream, saved = left(number)
        layers[number].input_gradient(own(number), saved, upstream)

    every = range(len(layers))
    first = next(number for number in every if sizes[number])  # no gradient goes further back
    calls: list[Callable[[], object]] = [partial(forward, number) for number in every]
    if backwards:  # the longest first
        passed = [partial(input_gradient, number) for number in every if number > first]
        calls = [*passed, *(partial(backward, number) for number in every if sizes[number]), *calls]
    return Compilation([*calls, *_sample_kernels(rows, shapes[-1][0], length)], rows)


def compile_sample_kernels(rows: Tensor, classes: int, length: int) -> Compilation:
    """Those where a network meets its samples, which `rows` are, for a batch of this length."""
    return Compilation(_sample_kernels(rows, classes, length), rows)


def _sample_kernels(rows: Tensor, classes: int, length: int) -> Sequence[Callable[[], object]]:
    from fedamd.oracles.stacked import triton_samples

    def numbers() -> Tensor:
        return torch.zeros(1, length, dtype=torch.int64, device=rows.device)

    def loss() -> None:
        logits, weights = rows.new_zeros(1, classes, length), rows.new_zeros(1, length)
        triton_samples.cross_entropy(logits, numbers()[0], numbers(), weights)

    return [loss, lambda: triton_samples.gather(rows, numbers())]


def compile_graph_kernels(rows: Tensor) -> Compilation:
    """Every other kernel of networks that are graphs, on the smallest of images like `rows`."""
    from fedamd.oracles.stacked import triton_columns as columns
    from fedamd.oracles.stacked import triton_group_norm as norm

    everywhere, geometry = Geometry((1, 2, 2), 1, (2, 2)), Geometry((1, 2, 2), 1, (2, 2), (2, 2))

    def images(*shape: int, dtype: torch.dtype = rows.dtype) -> Tensor:
        return rows.new_zeros(1, *shape, 2, dtype=dtype)

    def kept() -> norm.Kept:
        return norm.Kept(images(1, 2, 2), images(1, 2, 2), images(1), images(1), rectified=True)

    def weight() -> Tensor:
        return rows.new_ones(1, 1)

    calls: list[Callable[[], object]] = [  # the longest first
        lambda: norm.forward(images(1, 2, 2), weight(), weight(), 1, 1e-5, None, True),
        lambda: norm.input_gradient(kept(), weight(), images(1, 2, 2), 1, False),
        lambda: columns.fold(images(4), everywhere, 2),
        lambda: columns.fold(images(4), geometry, 2),
        lambda: columns.largest_back(images(1, 1, 1), images(1, 1, 1, dtype=torch.uint8), geometry),
        lambda: columns.largest(images(1, 2, 2), geometry),
        lambda: norm.parameter_gradient(kept(), images(1, 2, 2), weight(), weight(), 1),
        lambda: columns.unfold(images(1, 2, 2), geometry),
    ]
    return Compilation(calls, rows)
