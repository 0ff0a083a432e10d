"""What one batch's gradient costs the native oracle, on one thread: `python benchmarks/gradients.py [--seconds 4]`.

The networks of the published workloads that are sequences of layers, and LeNet-5 as on Fashion-MNIST, each with its
batch. Processor time, the least and the median of as many calls as fit; the networks take turns, so that a busy minute
does not fall on one of them. Beside it the multiplications and additions of direct convolutions a second (floor.py).
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from floor import COUNTED, operations
from torch import nn

from fedamd import models
from fedamd.data.base import Dataset
from fedamd.oracles.base import Batch
from fedamd.oracles.native.oracle import NativeOracle
from fedamd.workloads import WORKLOADS

SAMPLES, TURNS = 2000, 20


def gradient_of(name: str, shape: tuple[int, ...], classes: int, batch: int) -> tuple[Callable[[], object], float]:
    """A call that computes one batch's gradient, and how many operations that is."""
    inputs, targets = torch.randn(SAMPLES, *shape), torch.randint(0, classes, (SAMPLES,))
    dataset = Dataset("random", inputs, targets, inputs[:16], targets[:16], classes)
    model = models.build(name, dataset)
    assert isinstance(model, nn.Sequential)
    oracle = NativeOracle(model, dataset, threads=1)
    x = nn.utils.parameters_to_vector(model.parameters()).detach()

    def call() -> object:
        keys = torch.randint(0, 2**40, (batch,)) if oracle.keyed else None
        return oracle.gradient(x, Batch(torch.randint(0, SAMPLES, (batch,)), torch.full((batch,), 1 / batch), keys))

    return call, operations(model, shape)[0] * batch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each network")
    seconds = parser.parse_args().seconds
    torch.manual_seed(0)
    rows = {"lenet5 (W)": ("lenet5", (1, 28, 28), 10, 64)}
    for name in COUNTED:
        rows[name] = (WORKLOADS[name].model, WORKLOADS[name].shape, WORKLOADS[name].classes, WORKLOADS[name].batch)
    calls = {name: gradient_of(*row) for name, row in rows.items()}
    times: dict[str, list[float]] = {name: [] for name in rows}
    for turn in range(1, TURNS + 1):
        for name, (call, _) in calls.items():
            while sum(times[name]) < seconds * turn / TURNS:
                begun = time.thread_time()
                call()
                times[name].append(time.thread_time() - begun)
    print("| network | batch | least | median | GFLOP/s at the least |\n|---|---|---|---|---|")
    for name, taken in times.items():
        least = f"{min(taken) * 1e3:.2f} ms | {statistics.median(taken) * 1e3:.2f} ms"
        print(f"| {name} | {rows[name][-1]} | {least} | {calls[name][1] / min(taken) / 1e9:.0f} |")


if __name__ == "__main__":
    main()
