"""The Triton kernels of networks that are graphs, compiled side by side: one after the other, that takes seconds."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import torch
from torch import Tensor

from fedamd.oracles.stacked.convolution import Geometry

THREADS = 8


def compile_graph_kernels(rows: Tensor) -> list[BaseException]:
    """Call every kernel once, on the smallest of images; `rows` are the samples there will be.

    Returned is what went wrong: kernels that cannot run here fail again, and are told of, where they are needed.
    """
    from fedamd.oracles.stacked import triton_columns as columns
    from fedamd.oracles.stacked import triton_group_norm as norm
    from fedamd.oracles.stacked import triton_samples as samples

    geometry = Geometry((1, 2, 2), 1, (3, 3), (2, 2), (1, 1))  # of its taps four are live
    everywhere = Geometry((1, 2, 2), 1, (2, 2))
    images = rows.new_zeros(1, *geometry.inputs, 2)
    outputs, code = rows.new_zeros(1, *geometry.outputs, 2), rows.new_zeros(1, *geometry.outputs, 2, dtype=torch.uint8)
    weight, whole, unfolded = rows.new_ones(1, 1), rows.new_zeros(1, 1, 1, 3, 3), rows.new_zeros(1, 4, 2)
    group = rows.new_zeros(1, 1, 2)
    kept = norm.Kept(images, images, group, group, rectified=True)
    numbers = torch.zeros(1, 2, dtype=torch.int64, device=rows.device)
    calls = [
        lambda: columns.unfold(images, geometry),
        lambda: norm.forward(images, weight, weight, 1, 1e-5, None, True),
        lambda: norm.input_gradient(kept, weight, images, 1, False),
        lambda: norm.parameter_gradient(kept, images, weight, weight, 1),
        lambda: columns.fold(unfolded, geometry, 2),
        lambda: columns.fold(unfolded, everywhere, 2),
        lambda: columns.largest(images, geometry),
        lambda: columns.largest_back(outputs, code, geometry),
        lambda: columns.spread(unfolded.view(1, 1, -1), whole, geometry),
        lambda: samples.gather(rows, numbers),
    ]

    def there(call: Callable[[], object]) -> None:
        with torch.cuda.device_of(rows):  # type: ignore[no-untyped-call]
            call()

    with ThreadPoolExecutor(THREADS) as threads:
        first = threads.submit(there, calls[0])
        wait([first])  # it loads what all of them need
        futures = [first, *(threads.submit(there, call) for call in calls[1:])]
    return [error for future in futures if (error := future.exception()) is not None]
