"""The Triton kernels of a network, compiled side by side: one after the other, that takes seconds.

A kernel is compiled by a call. What goes wrong in one is returned rather than raised: kernels that cannot run here fail
again, and are told of, where they are needed.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial

import torch
from torch import Tensor

from fedamd.oracles.stacked.convolution import Geometry
from fedamd.oracles.stacked.layers import Layer, Saved

THREADS = 8
USUAL = 64  # samples of a batch: the kernel of losses serves as many as up to the next power of two


def compile_layer_kernels(layers: Sequence[Layer], rows: Tensor, length: int, backwards: bool) -> list[BaseException]:
    """Call every layer's kernels once, for one model and a batch of this length; `rows` are the samples."""
    from fedamd.oracles.stacked import triton_samples

    shapes = [rows.shape[1:], *(layer.shape for layer in layers)]
    sizes = [layer.size for layer in layers]
    outcomes: dict[int, tuple[Tensor, Saved]] = {}

    def own(number: int) -> Tensor:  # among the other layers' parameters, as it will be
        return rows.new_zeros(1, sum(sizes)).split_with_sizes(sizes, 1)[number]

    def numbers() -> Tensor:
        return torch.zeros(1, length, dtype=torch.int64, device=rows.device)

    def forward(number: int) -> None:
        outcome = layers[number].forward(own(number), rows.new_zeros(1, *shapes[number], length))
        if backwards:
            outcomes[number] = outcome

    def loss() -> None:
        logits, weights = rows.new_zeros(1, *shapes[-1], length), rows.new_zeros(1, length)
        triton_samples.cross_entropy(logits, numbers()[0], numbers(), weights)

    def backward(number: int) -> None:
        outputs, saved = outcomes[number]
        layers[number].backward(own(number), saved, torch.zeros_like(outputs), own(number))

    def input_gradient(number: int) -> None:
        outputs, saved = outcomes[number]
        layers[number].input_gradient(own(number), saved, torch.zeros_like(outputs))

    every = range(len(layers))
    first = next(number for number in every if sizes[number])  # no gradient goes further back
    stages: list[list[Callable[[], object]]] = [
        [lambda: triton_samples.gather(rows, numbers())],
        [*(partial(forward, number) for number in every), loss],
    ]
    if backwards:
        passed = [partial(input_gradient, number) for number in every if number > first]
        stages.append([*passed, *(partial(backward, number) for number in every)])
    return _in_stages(stages, rows)


def compile_graph_kernels(rows: Tensor, classes: int) -> list[BaseException]:
    """Call every kernel of networks that are graphs once, on the smallest of images; `rows` are the samples."""
    from fedamd.oracles.stacked import triton_columns as columns
    from fedamd.oracles.stacked import triton_group_norm as norm
    from fedamd.oracles.stacked import triton_samples as samples

    everywhere, geometry = Geometry((1, 2, 2), 1, (2, 2)), Geometry((1, 2, 2), 1, (2, 2), (2, 2))
    images = rows.new_zeros(1, *geometry.inputs, 2)
    outputs, code = rows.new_zeros(1, *geometry.outputs, 2), rows.new_zeros(1, *geometry.outputs, 2, dtype=torch.uint8)
    weight, unfolded, group = rows.new_ones(1, 1), rows.new_zeros(1, 4, 2), rows.new_zeros(1, 1, 2)
    kept = norm.Kept(images, images, group, group, rectified=True)
    numbers = torch.zeros(1, USUAL, dtype=torch.int64, device=rows.device)
    logits, weights = rows.new_zeros(1, classes, USUAL), rows.new_zeros(1, USUAL)
    calls = [
        lambda: columns.unfold(images, geometry),
        lambda: norm.forward(images, weight, weight, 1, 1e-5, None, True),
        lambda: norm.input_gradient(kept, weight, images, 1, False),
        lambda: norm.parameter_gradient(kept, images, weight, weight, 1),
        lambda: columns.fold(unfolded, geometry, 2),
        lambda: columns.fold(unfolded, everywhere, 2),
        lambda: columns.largest(images, geometry),
        lambda: columns.largest_back(outputs, code, geometry),
        lambda: samples.gather(rows, numbers[:, :2].contiguous()),
        lambda: samples.cross_entropy(logits, numbers[0], numbers, weights),
    ]
    return _in_stages([calls[:1], calls[1:]], rows)  # the first loads what all of them need


def _in_stages(stages: Sequence[Sequence[Callable[[], object]]], rows: Tensor) -> list[BaseException]:
    """What went wrong in calls made where `rows` are: those of a stage side by side, one stage after another."""

    def there(call: Callable[[], object]) -> None:
        with torch.cuda.device_of(rows):  # type: ignore[no-untyped-call]
            call()

    errors = []
    with ThreadPoolExecutor(THREADS) as threads:
        for calls in stages:
            futures = [threads.submit(there, call) for call in calls]
            wait(futures)
            errors += [error for future in futures if (error := future.exception()) is not None]
    return errors
