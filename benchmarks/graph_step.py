"""A local step of stacks of ResNet-18-GN on a GPU, as the vectorised engine takes it: time, kernels, memory, accuracy.

    PYTHONPATH=src python3 benchmarks/graph_step.py

N models with a batch of 50 images (3 × 32 × 32) each. For the first call all kernels are compiled anew, once as soon as
the machine is there and once more in another process, when its disk is warm.
"""

import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

os.environ["TRITON_CACHE_DIR"] = (
    tempfile.mkdtemp()
)  # so that kernels are compiled anew: Triton looks when it is imported

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from fedamd import triton_here
from fedamd.data.base import Dataset
from fedamd.engines.captured import CapturedOracle
from fedamd.engines.precise import precisely
from fedamd.models.images import ResNet18
from fedamd.oracles.autograd import AutogradOracle
from fedamd.oracles.base import Batch
from fedamd.oracles.stacked.compilation import compile_graph_kernels, compile_sample_kernels
from fedamd.oracles.stacked.graph import Network
from fedamd.oracles.stacked.graph_oracle import GraphOracle

SAMPLES, BATCH, STEPS = 5000, 50, 50
MODELS = (10, 80, 1)
PRECISIONS = ("tf32", "float32")
CUDA = torch.device("cuda")
RATE = 1e-3
FIRST = "--first"  # the first call alone
T = TypeVar("T")


def dataset() -> Dataset:
    """Random images and labels in the shape of CIFAR-10."""
    images = torch.randn(SAMPLES, 3, 32, 32, device=CUDA)
    labels = torch.randint(10, (SAMPLES,), device=CUDA)
    return Dataset("random", images, labels, images[:100], labels[:100], 10)


def stack(model: nn.Module, models: int) -> Tensor:
    """Parameters of N networks that differ."""
    start = nn.utils.parameters_to_vector(model.parameters()).detach()
    return start + 0.01 * torch.randn(models, len(start), device=CUDA)


def draw(models: int) -> Batch:
    samples = torch.randint(SAMPLES, (models, BATCH), device=CUDA)
    return Batch(samples, torch.full((models, BATCH), 1 / BATCH, device=CUDA))


def milliseconds(call: Callable[[], object], repeats: int = 15) -> float:
    """Median time on the device."""
    times = []
    for _ in range(repeats + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times[1:])


def sample_kernels(data: Dataset) -> object:
    return compile_sample_kernels(data.inputs, data.classes, BATCH).wait()


def first_call(model: nn.Module, data: Dataset) -> GraphOracle:
    """What a process waits for before its first gradient, step by step."""
    stages: dict[str, float] = {}

    def stage(name: str, call: Callable[[], T]) -> T:
        began = time.perf_counter()
        result = call()
        torch.cuda.synchronize()
        stages[name] = time.perf_counter() - began
        return result

    stage("loading Triton", lambda: importlib.import_module("triton"))
    import triton

    compiled: Counter[str] = Counter()

    def listen(times: Any = None, **_: object) -> None:
        compiled.update(dict(times.lowering_stages) | {"ir": times.ir_initialization})

    triton.knobs.compilation.listener = listen
    stage("tracing", lambda: Network(model, (3, 32, 32)))
    stage("a first kernel", lambda: triton_here.begin(CUDA).kernel.result())
    stage("the others", lambda: [compile_graph_kernels(data.inputs, data.classes).wait(), sample_kernels(data)])
    stage("once more", lambda: [compile_graph_kernels(data.inputs, data.classes).wait(), sample_kernels(data)])
    oracle = stage("an oracle", lambda: GraphOracle(model, data))
    stage("a gradient", lambda: oracle.gradient(stack(model, 10), draw(10)))
    print("first call: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in stages.items()))
    print("  compilers, over all threads: " + ", ".join(f"{n} {spent / 1e6:.2f} s" for n, spent in compiled.items()))
    return oracle


def check(oracle: GraphOracle, model: nn.Module, data: Dataset) -> None:
    """Against automatic differentiation in float64."""
    x, batch = stack(model, 3), draw(3)
    gradients, losses = oracle.gradient(x, batch)
    exact = Dataset("exact", data.inputs.double(), data.targets, data.test_inputs, data.test_targets, 10)
    truth, loss = AutogradOracle(model.double(), exact).gradient(
        x[1].double(), Batch(batch.samples[1], batch.weights[1].double())
    )
    model.float()
    error = (gradients[1] - truth).norm() / truth.norm()
    print(f"against float64: gradient off by {error:.1e} of its length, loss by {abs(losses[1] - loss):.1e}")


def measure(oracle: GraphOracle, model: nn.Module, models: int, precision: str) -> None:
    captured, batch = CapturedOracle(oracle), draw(models)
    x, eta = stack(model, models), torch.full((models, 1), RATE, device=CUDA)
    torch.cuda.reset_peak_memory_stats()
    with precisely(precision, CUDA):
        began = time.perf_counter()
        captured.step(x, eta, batch)
        torch.cuda.synchronize()
        capture = time.perf_counter() - began
        step = milliseconds(lambda: captured.descend(x, eta, [batch] * STEPS), 2) / STEPS
        graph = next(iter(captured._graphs.values()))
        replay = milliseconds(lambda: graph(batch))
        peak = torch.cuda.max_memory_allocated() / 2**30
        print(
            f"N = {models}, {precision}: {step:.2f} ms a step, {replay:.2f} in the graph; "
            f"captured in {capture:.2f} s; {peak:.1f} GiB"
        )
        if models >= 10 and precision == "tf32":
            kernels(lambda: captured.step(x, eta, batch))


def kernels(call: Callable[[], object]) -> None:
    """Those that take longest."""
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        call()
        torch.cuda.synchronize()
    events = [event for event in recorded.key_averages() if event.device_time_total > 0]
    total, launches = sum(event.device_time_total for event in events), sum(event.count for event in events)
    print(f"  {total / 1000:.2f} ms in {launches} launches")
    for event in sorted(events, key=lambda event: -event.device_time_total)[:20]:
        print(f"  {event.device_time_total / 1000:6.3f} ms x{event.count:<3} {event.key[:110]}")


def main() -> None:
    sys.stdout.reconfigure(line_buffering=True)  # what is measured is told, even if the rest takes too long
    torch.manual_seed(0)
    began = time.perf_counter()
    data, model = dataset(), ResNet18(3, 10).to(CUDA)
    torch.cuda.synchronize()
    ready = time.perf_counter() - began
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; device ready in {ready:.2f} s")
    oracle = first_call(model, data)
    if FIRST in sys.argv:
        return
    for models in MODELS:
        for precision in PRECISIONS:
            measure(oracle, model, models, precision)
            torch.cuda.empty_cache()
    check(oracle, model, data)
    again = subprocess.run([sys.executable, __file__, FIRST], capture_output=True, text=True, check=True)
    print(f"in another process:\n{again.stdout}")


if __name__ == "__main__":
    main()
