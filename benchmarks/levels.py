"""What a library for a level of CPUs loses against one for this very CPU: `python benchmarks/levels.py`.

Builds the kernels with `-march=native` into a temporary folder, then times gradients of LeNet-5 and of an MLP on one
thread through that library and through each level's, in turns; prints, for each, the smallest CPU time of all turns and
its ratio to `native`.
"""

import argparse
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


def compare(name: str, paths: dict[str, Path], turns: int) -> None:
    dataset = Dataset("random", torch.randn(512, 1, 28, 28), torch.randint(0, 10, (512,)), *_no_tests(), 10)
    model = models.build(name, dataset)
    calls = {label: work(oracle_through(path, model, dataset)) for label, path in paths.items()}
    times = {label: min(times) for label, times in zip(calls, _in_turns(calls, turns), strict=True)}
    for label, seconds in times.items():
        print(f"{name:8} {label:8} {seconds * 1e3:8.2f} ms   {seconds / times['native']:.3f} × native")


def _in_turns(calls: dict[str, Callable[[], None]], turns: int) -> list[list[float]]:
    rounds = [[cpu_seconds(call) for call in calls.values()] for _ in range(turns)]
    return [list(column) for column in zip(*rounds, strict=True)]


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
        for name in ("lenet5", "mlp"):
            compare(name, paths, turns)


if __name__ == "__main__":
    main()
