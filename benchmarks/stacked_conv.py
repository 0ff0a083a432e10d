"""Speed and accuracy of the stacked oracle on a GPU: LeNet-5, N models with a batch of 64 samples each.

    PYTHONPATH=src python3 benchmarks/stacked_conv.py --json results.json

Checks the gradients against float64 first, then times gradients eagerly and as a CUDA graph, and each kernel at one N.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from fedamd.data.base import Dataset
from fedamd.oracles.base import Batch
from fedamd.oracles.stacked.oracle import StackedOracle

SAMPLES = 60_000
BATCH = 64
DEVICE = "cuda"


def lenet() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def dataset() -> Dataset:
    """Random images and labels in the shape of Fashion-MNIST."""

    def labels(count: int) -> Tensor:
        return torch.randint(10, (count,), device=DEVICE)

    def images(count: int) -> Tensor:
        return torch.randn(count, 1, 28, 28, device=DEVICE)

    return Dataset("random", images(SAMPLES), labels(SAMPLES), images(10_000), labels(10_000), 10)


def stack(models: int) -> Tensor:
    """Parameters of N freshly initialised networks that differ."""
    torch.manual_seed(models)
    start = nn.utils.parameters_to_vector(lenet().parameters()).detach().to(DEVICE)
    return start + 0.02 * torch.randn(models, len(start), device=DEVICE)


def draw(models: int, batch: int = BATCH) -> Batch:
    samples = torch.randint(SAMPLES, (models, batch), device=DEVICE)
    return Batch(samples, torch.full((models, batch), 1 / batch, device=DEVICE))


def milliseconds(call: Callable[[], object], repeats: int = 20) -> float:
    """Median time on the device."""
    for _ in range(3):
        call()
    times = []
    for _ in range(repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times)


def recorded(call: Callable[[], object]) -> Callable[[], object]:
    """The call as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def errors(data: Dataset, models: int, batch: int) -> dict[str, float]:
    """‖float32 kernels − float64 plain PyTorch‖ / ‖float64‖ of every result."""
    fast = StackedOracle(lenet(), data)
    exact = StackedOracle(lenet(), data.to(DEVICE, torch.float64))
    x, previous, batches = stack(models), stack(models) + 0.01, draw(models, batch)
    wide = Batch(batches.samples, batches.weights.double())
    pairs = {
        "gradient": (fast.gradient(x, batches)[0], exact.gradient(x.double(), wide)[0]),
        "difference": (
            fast.difference(x, previous, batches)[0],
            exact.difference(x.double(), previous.double(), wide)[0],
        ),
        "loss": (fast.loss(x, batches), exact.loss(x.double(), wide)),
        "test loss": (fast.evaluate(x)[0], exact.evaluate(x.double())[0]),
    }
    return {name: float((ours - truth).norm() / truth.norm()) for name, (ours, truth) in pairs.items()}


def check_graph(oracle: StackedOracle, models: int) -> None:
    """A recorded call must follow its inputs: replay it at another point on another batch."""
    x, batches = stack(models), draw(models)
    held: list[Tensor] = []
    replay = recorded(lambda: held.extend(oracle.difference(x, x + 0.01, batches)))
    x.mul_(1.1)
    batches.samples.copy_(draw(models).samples)
    replay()
    for ours, truth in zip(held[-2:], oracle.difference(x, x + 0.01, batches), strict=True):
        torch.testing.assert_close(ours, truth)


def kernel_times(call: Callable[[], object]) -> dict[str, float]:
    """Milliseconds in each kernel of one call."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as profile:
        for _ in range(5):
            call()
        torch.cuda.synchronize()
    times = {event.key: event.self_device_time_total / 5000 for event in profile.key_averages()}
    return dict(sorted(times.items(), key=lambda item: -item[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, nargs="+", default=[20, 40, 200, 1000], help="the N to time")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    data = dataset()
    oracle = StackedOracle(lenet(), data)
    results: dict[str, object] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    for models, batch in ((4, BATCH), (3, 37)):
        results[f"errors, N = {models}, B = {batch}"] = found = errors(data, models, batch)
        print(f"N = {models}, B = {batch}:", ", ".join(f"{name} {error:.1e}" for name, error in found.items()))
        assert max(found.values()) < 1e-4, "the kernels are wrong"
    check_graph(oracle, 5)
    print(f"{'N':>5} {'eager ms':>9} {'graph ms':>9} {'million/s':>10} {'difference ms':>14} {'evaluate ms':>12}")
    for models in arguments.models:
        x, previous, batches = stack(models), stack(models) + 0.01, draw(models)
        row = {
            "eager": milliseconds(lambda: oracle.gradient(x, batches)),  # noqa: B023
            "graph": milliseconds(recorded(lambda: oracle.gradient(x, batches))),  # noqa: B023
            "difference graph": milliseconds(recorded(lambda: oracle.difference(x, previous, batches))),  # noqa: B023
            "evaluate": milliseconds(lambda: oracle.evaluate(x), repeats=3),  # noqa: B023
        }
        row["million gradients/s"] = models * BATCH / min(row["eager"], row["graph"]) / 1e3
        results[f"N = {models}"] = row
        print(
            f"{models:>5} {row['eager']:>9.3f} {row['graph']:>9.3f} {row['million gradients/s']:>10.2f}"
            f" {row['difference graph']:>14.3f} {row['evaluate']:>12.2f}"
        )
        results[f"kernels, N = {models}"] = kernel_times(lambda: oracle.gradient(x, batches))  # noqa: B023
    kernels = results[f"kernels, N = {arguments.models[-1]}"]
    assert isinstance(kernels, dict)
    for name, time in list(kernels.items())[:16]:
        print(f"{time:9.4f} ms  {name[:100]}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
