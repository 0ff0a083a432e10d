"""The least time a round of a published workload can take on this CPU, by its arithmetic alone.

    python benchmarks/floor.py

Counts the multiplications and additions of direct convolutions and linear layers, forward and backward, for one sample,
and times those of a round at the most operations a second the cores do (peak.cpp, all cores at once). `needed` leaves
out factors that are known to be zero: gradients behind a 2×2 max-pooling, of which a quarter arrives, and what dropout
has struck out. Measured times are those in results/workloads.json.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from torch import Tensor, nn

from fedamd.data import Dataset
from fedamd.models import build
from fedamd.oracles.native.build import compiler
from fedamd.workloads import WORKLOADS, Workload

HERE = Path(__file__).parent
COUNTED = ("blazefl", "pfl", "flute-femnist")  # whose networks are sequences of layers


@dataclass(frozen=True)
class Layer:
    """One with weights: its multiply-adds for a sample, and the shares of inputs and output gradients not zero."""

    products: int
    inputs: float
    gradients: float


def layers(model: nn.Sequential, shape: tuple[int, ...]) -> Iterator[Layer]:
    """Those of the model with weights, the first first."""
    values, modules, inputs = torch.zeros(1, *shape), list(model), 1.0
    for index, module in enumerate(modules):
        outputs: Tensor = module(values)
        if isinstance(module, nn.Conv2d | nn.Linear):
            yield Layer(outputs[0].numel() * prod(module.weight.shape[1:]), inputs, arriving(modules[index + 1 :]))
            inputs = 1.0
        elif isinstance(module, nn.Dropout):
            inputs *= 1 - module.p
        values = outputs


def arriving(modules: list[nn.Module]) -> float:
    """The share of a layer's outputs to which a gradient comes back from the next layer with weights."""
    share = 1.0
    for module in modules:
        if isinstance(module, nn.Conv2d | nn.Linear):
            break
        share *= 0.25 if isinstance(module, nn.MaxPool2d) else 1 - module.p if isinstance(module, nn.Dropout) else 1
    return share


def operations(model: nn.Sequential, shape: tuple[int, ...]) -> tuple[float, float]:
    """Of one sample's gradient: all, and those that are needed. The first layer's inputs need no gradient."""
    every = needed = 0.0
    for index, layer in enumerate(layers(model.eval(), shape)):
        backward = 1 if index == 0 else 2
        every += 2 * layer.products * (1 + backward)
        needed += 2 * layer.products * layer.inputs * (1 + backward * layer.gradients)
    return every, needed


def of_a_round(work: Workload) -> tuple[float, float]:
    inputs = torch.zeros(work.classes, *work.shape)
    data = Dataset("shape", inputs, torch.arange(work.classes), inputs, torch.arange(work.classes), work.classes)
    model = build(work.model, data)
    assert isinstance(model, nn.Sequential)
    every, needed = operations(model, work.shape)
    samples = work.cohort * work.steps * work.batch
    return every * samples, needed * samples


def peak() -> float:
    """Operations a second of all cores of this process, each with a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "peak")
        subprocess.run(
            [compiler() or "c++", "-O3", "-march=native", "-std=c++17", HERE / "peak.cpp", "-o", program], check=True
        )
        started = [
            subprocess.Popen(["taskset", "-c", str(core), program], stdout=subprocess.PIPE, text=True)
            for core in os.sched_getaffinity(0)
        ]
        return sum(float(one.communicate()[0].split()[0]) for one in started)


def main() -> None:
    most = peak()
    print(f"{len(os.sched_getaffinity(0))} cores: {most / 1e9:.0f} GFLOP/s at most")
    stored = json.loads((HERE / "results" / "workloads.json").read_text())["workloads"]
    for result in (one for one in stored if one["workload"] in COUNTED):
        name = result["workload"]
        every, needed = of_a_round(WORKLOADS[name])
        print(
            f"{name}: {every / 1e9:.0f} GFLOP a round, {every / most:.2f} s; needed {needed / 1e9:.0f}, "
            f"{needed / most:.2f} s; measured {result['each_round']:.2f} s"
        )
        if beside := result.get("beside"):
            other = beside["each_round"]
            print(
                f"{name}: itself {other:.2f} s, at most {other * most / every:.1f} times, "
                f"with what is needed {other * most / needed:.1f}"
            )


if __name__ == "__main__":
    main()
