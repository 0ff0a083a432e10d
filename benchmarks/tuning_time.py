"""How long `fedamd tune` takes for 100 trials of FedAvg on W, every trial's folder written.

    python benchmarks/tuning_time.py [--device cuda] [--trials 100] [--json FILE]

W: Fashion-MNIST, 100 clients × 600 samples of two classes, LeNet-5, 20 clients a round, K = 10, b' = 64, 400 rounds,
evaluation after every round; halving after 44 and 133 rounds. The time is that of a process from here on:
reading the data, choosing the engine and compiling kernels are in it, importing PyTorch is not.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpu import machine
from pictures import fashion_mnist

from fedamd.campaigns.tune import plan, tune


def w(tiny: bool) -> dict[str, Any]:
    """The config that is tuned."""
    shape: dict[str, Any] = {"data": fashion_mnist(tiny), "partition": {"name": "classes"}, "model": {"name": "lenet5"}}
    if tiny:
        small = {"name": "fedavg", "steps": 2, "small_batch": 4}
        return shape | {"clients": 10, "cohort": 3, "rounds": 9, "algorithm": small}
    return shape | {"clients": 100, "cohort": 20, "rounds": 400, "algorithm": {"name": "fedavg"}}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cpu")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--tiny", action="store_true", help="a few rounds on a few pictures: figures mean nothing")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args(words)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        tuned = tune(plan(w(options.tiny) | {"device": options.device}, Path(folder) / "w", trials=options.trials))
        seconds = time.perf_counter() - began
    assert tuned.best is not None
    told = {"trials": options.trials, "rounds": tuned.rounds, "seconds": seconds}
    result = {"machine": machine(options.device)} | told | {"best": dict(tuned.best.point), "score": tuned.best.score}
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
