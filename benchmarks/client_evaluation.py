"""What it costs to test a model on every client's own samples, beside an ordinary evaluation of as many samples.

    python benchmarks/client_evaluation.py            # 10,000 samples of 100 clients, on the CPU

Prints for each model the wall-clock and the processor time of both, the best of several, and their ratios (the aim: at
most 2). Inputs are noise of the size of MNIST's, as only time is measured.
"""

import argparse
import os
import time
from collections.abc import Callable

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # as the command line has it, before PyTorch is imported

import torch

from fedamd import Dataset
from fedamd.runs.api import resolve_engine
from fedamd.runs.config import load_config
from fedamd.runs.experiment import Experiment, build_experiment


def best_of(repeats: int, *works: Callable[[], object]) -> list[tuple[float, float]]:
    """Of each, the least milliseconds of the clock and of the processors; they take turns, after one to warm up."""
    times: list[list[tuple[float, float]]] = [[] for _ in works]
    for repeat in range(repeats + 1):
        for work, own in zip(works, times, strict=True):
            clock, processors = time.perf_counter(), time.process_time()
            work()
            if repeat:
                own.append((1e3 * (time.perf_counter() - clock), 1e3 * (time.process_time() - processors)))
    return [(min(clock for clock, _ in own), min(processors for _, processors in own)) for own in times]


def prepared(model: str, clients: int, samples: int, metrics: list[str], oracle: str) -> Experiment:
    """As many test samples as the clients hold out together."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(2 * samples, 1, 28, 28, generator=generator)
    targets = torch.randint(10, (2 * samples,), generator=generator)
    data = Dataset("noise", inputs, targets, inputs[:samples], targets[:samples], classes=10)
    config = {"clients": clients, "cohort": min(20, clients), "test_share": 0.5, "metrics": metrics, "oracle": oracle}
    return build_experiment(
        load_config(config | {"model": {"name": model}, "partition": {"name": "iid"}}), dataset=data
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--models", nargs="+", default=["mlp", "lenet5"])
    parser.add_argument("--metrics", nargs="*", default=[], help="besides loss and accuracy")
    parser.add_argument("--oracle", default="auto")
    told = parser.parse_args()
    print(f"{told.samples} samples of {told.clients} clients, {torch.get_num_threads()} threads of PyTorch")
    for model in told.models:
        experiment = prepared(model, told.clients, told.samples, told.metrics, told.oracle)
        engine, x, evaluation = resolve_engine(experiment).engine, experiment.x0, experiment.evaluation

        def ordinary() -> None:
            engine.evaluate([x])  # noqa: B023  called before the next model
            evaluation.on_test_set(x)  # noqa: B023

        whole, each = best_of(told.repeats, ordinary, lambda: evaluation.on_clients(x))  # noqa: B023
        for name, ours, theirs in zip(("clock", "processors"), each, whole, strict=True):
            times = f"ordinary {theirs:7.1f} ms   every client {ours:7.1f} ms"
            print(f"{model:8} {name:10} {times}   ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
