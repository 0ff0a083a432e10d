"""What one batch's gradient costs the native oracle, on one thread.

    python benchmarks/gradients.py [--seconds 4] [--steps]

The networks of the published workloads that are sequences of layers, and LeNet-5 as on Fashion-MNIST, each with its
batch. Processor time, the least and the median of as many calls as fit; the networks take turns, so that a busy minute
does not fall on one of them. Beside it the multiplications and additions of direct convolutions a second (floor.py).
With `--steps` it is a batch's step of SGD, as FedAvg takes it: a fifth of a descent of five.
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

SAMPLES, TURNS, DESCENT = 2000, 20, 5


def gradient_of(
    name: str, shape: tuple[int, ...], classes: int, batch: int, steps: bool
) -> tuple[Callable[[], object], float]:
    """A call that computes one batch's gradient, or takes steps on several, and how many operations each is."""
    inputs, targets = torch.randn(SAMPLES, *shape), torch.randint(0, classes, (SAMPLES,))
    dataset = Dataset("random", inputs, targets, inputs[:16], targets[:16], classes)
    model = models.build(name, dataset)
    assert isinstance(model, nn.Sequential)
    oracle = NativeOracle(model, dataset, threads=1)
    x = nn.utils.parameters_to_vector(model.parameters()).detach()

    def drawn() -> Batch:
        keys = torch.randint(0, 2**40, (batch,)) if oracle.keyed else None
        return Batch(torch.randint(0, SAMPLES, (batch,)), torch.full((batch,), 1 / batch), keys)

    def call() -> object:
        if steps:
            return oracle.descend(x, torch.tensor(0.001), [drawn() for _ in range(DESCENT)])
        return oracle.gradient(x, drawn())

    return call, operations(model, shape)[0] * batch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each network")
    parser.add_argument("--steps", action="store_true", help="time steps of SGD")
    options = parser.parse_args()
    torch.manual_seed(0)
    rows = {"lenet5 (W)": ("lenet5", (1, 28, 28), 10, 64)}
    for name in COUNTED:
        rows[name] = (WORKLOADS[name].model, WORKLOADS[name].shape, WORKLOADS[name].classes, WORKLOADS[name].batch)
    calls = {name: gradient_of(*row, options.steps) for name, row in rows.items()}
    times: dict[str, list[float]] = {name: [] for name in rows}
    for turn in range(1, TURNS + 1):
        for name, (call, _) in calls.items():
            while sum(times[name]) < options.seconds * turn / TURNS:
                begun = time.process_time()
                call()
                times[name].append(time.process_time() - begun)
    a_call = DESCENT if options.steps else 1
    print("| network | batch | least | median | GFLOP/s at the least |\n|---|---|---|---|---|")
    for name, taken in times.items():
        least, middle = min(taken) / a_call, statistics.median(taken) / a_call
        told = f"{least * 1e3:.2f} ms | {middle * 1e3:.2f} ms | {calls[name][1] / least / 1e9:.0f}"
        print(f"| {name} | {rows[name][-1]} | {told} |")


if __name__ == "__main__":
    main()
