"""What it costs to test a model on every client's own samples, beside an ordinary evaluation of as many samples.

    python benchmarks/client_evaluation.py            # 10,000 samples of 100 clients, on the CPU

Prints for each model the processor time of both, the best of several, and their ratio (the aim: at most 2). Inputs are
noise of the size of MNIST's, as only time is measured.
"""

import argparse
import time
from collections.abc import Callable

import torch

from fedamd import Dataset
from fedamd.runs.api import resolve_engine
from fedamd.runs.config import load_config
from fedamd.runs.experiment import Experiment, build_experiment


def best_of(repeats: int, work: Callable[[], object]) -> float:
    """Seconds of processor time, of all threads, of the fastest repetition; one more comes before, to warm up."""
    work()
    times = []
    for _ in range(repeats):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


def prepared(model: str, clients: int, samples: int, metrics: list[str]) -> Experiment:
    """As many test samples as the clients hold out together."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(2 * samples, 1, 28, 28, generator=generator)
    targets = torch.randint(10, (2 * samples,), generator=generator)
    data = Dataset("noise", inputs, targets, inputs[:samples], targets[:samples], classes=10)
    config = {"clients": clients, "cohort": min(20, clients), "test_share": 0.5, "metrics": metrics}
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
    told = parser.parse_args()
    print(f"{told.samples} samples of {told.clients} clients, {torch.get_num_threads()} threads of PyTorch")
    for model in told.models:
        experiment = prepared(model, told.clients, told.samples, told.metrics)
        engine, x, evaluation = resolve_engine(experiment).engine, experiment.x0, experiment.evaluation

        def ordinary() -> None:
            engine.evaluate([x])  # noqa: B023  called before the next model
            evaluation.on_test_set(x)  # noqa: B023

        whole = best_of(told.repeats, ordinary)
        each = best_of(told.repeats, lambda: evaluation.on_clients(x))  # noqa: B023
        print(
            f"{model:8} ordinary {1e3 * whole:8.1f} ms   every client {1e3 * each:8.1f} ms   ratio {each / whole:.2f}"
        )


if __name__ == "__main__":
    main()
