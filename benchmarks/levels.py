"""What a library for a level of CPUs loses against one for this very CPU: `python benchmarks/levels.py`.

Builds the kernels with `-march=native` into a temporary folder, then times gradients of LeNet-5 and of an MLP on one
thread through that library and through each level's. Every turn times all of them, beginning with another one, and
gives a ratio of processor times; the table has the median of these ratios and, in brackets, their quartiles.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from fedamd import models
from fedamd.data.base import Dataset
from fedamd.oracles.base import Batch
from fedamd.oracles.native import build, library, oracle

MODELS, BATCH = 8, 64


def oracle_through(path: Path, model: nn.Module, dataset: Dataset) -> oracle.NativeOracle:
    """An oracle that uses the library in that file, whatever was loaded before."""
    oracle.load = lambda: library.ctypes.CDLL(str(path))  # type: ignore[attr-defined]
    oracle._library.cache_clear()
    return oracle.NativeOracle(model, dataset, threads=1)


def work(through: oracle.NativeOracle) -> Callable[[], None]:
    torch.manual_seed(0)
    x = torch.randn(MODELS, through.dimension) * 0.05
    batch = Batch(torch.randint(0, 512, (MODELS, BATCH)), torch.full((MODELS, BATCH), 1 / BATCH))
    return lambda: [through.corrected(x, x, x.flip(0), batch) for _ in range(4)] and None


def cpu_seconds(call: Callable[[], None]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def compare(name: str, paths: dict[str, Path], turns: int) -> str:
    """A row of the table."""
    dataset = Dataset("random", torch.randn(512, 1, 28, 28), torch.randint(0, 10, (512,)), *_no_tests(), 10)
    model = models.build(name, dataset)
    calls = {label: work(oracle_through(path, model, dataset)) for label, path in paths.items()}
    in_turn(calls, 0)  # caches and clocks warm up
    times = [in_turn(calls, turn) for turn in range(turns)]
    native = min(turn["native"] for turn in times)
    cells = [spread([turn[label] / turn["native"] for turn in times]) for label in calls if label != "native"]
    return f"| {name} | {native * 1e3:.1f} ms | {' | '.join(cells)} |"


def in_turn(calls: dict[str, Callable[[], None]], turn: int) -> dict[str, float]:
    """Processor seconds of each, beginning with another one in every turn."""
    labels = list(calls)
    first = turn % len(labels)
    return {label: cpu_seconds(calls[label]) for label in labels[first:] + labels[:first]}


def spread(ratios: list[float]) -> str:
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.3f} ({low:.3f}–{high:.3f})"


def _no_tests() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(16, 1, 28, 28), torch.zeros(16, dtype=torch.int64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=40)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as folder:
        native = replace(build.levels()[0], name="native", flags=("-march=native",))
        paths = {"native": build.build(native, Path(folder))}
        for level in build.runnable():
            path = build.FOLDER / build.library_name(level)
            paths[level.name] = path if path.exists() else build.build(level, Path(folder))
        levels = [label for label in paths if label != "native"]
        print(f"| model | native, best turn | {' | '.join(f'{level} / native' for level in levels)} |")
        print("|---" * (len(levels) + 2) + "|")
        for name in ("lenet5", "mlp"):
            print(compare(name, paths, turns))


if __name__ == "__main__":
    main()
