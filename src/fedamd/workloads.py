"""Workloads that others have published, each as one call: same model, clients, batches and number of steps.

Where a data set is not installed, random tensors of its shape take its place: the arithmetic is the same, accuracies
mean nothing, and the result says so. An epoch is as many steps as it has batches, each on a random batch. Figures of
others are quoted, from their machines.
"""

import contextlib
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from fedamd.algorithms.fedavg import FedAvg
from fedamd.data import Dataset, load, where
from fedamd.engines.factory import choose_engine
from fedamd.registry import choose
from fedamd.runs.config import load_config
from fedamd.runs.environment import processor
from fedamd.runs.experiment import build_experiment
from fedamd.runs.run import Run
from fedamd.runs.session import Session, as_sinks

# What is loaded where it is installed, the original first. The other data sets' clients are not dealt out as here, so
# tensors of their shape take their place.
_TO_LOAD = {"cifar-10": ("cifar-10", "cifar-10-jpeg")}


@dataclass(frozen=True)
class Workload:
    """A FedAvg workload; `samples` is how many each client owns."""

    title: str
    data: str
    shape: tuple[int, ...]
    classes: int
    model: str
    clients: int
    samples: int
    cohort: int
    batch: int
    epochs: int
    eta_l: float
    rounds: int
    quoted: dict[str, str]
    classes_per_client: int | None = None

    @property
    def steps(self) -> int:
        """K: the batches of all epochs."""
        return self.epochs * -(-self.samples // self.batch)

    def dataset(self) -> Dataset:
        """The data set it is about where that is installed, else random tensors of its shape."""
        if found := next((name for name in _TO_LOAD.get(self.data, ()) if where(name)), None):
            return load(found)
        random = torch.Generator().manual_seed(0)
        count = self.clients * self.samples
        inputs = torch.randn(count + 1000, *self.shape, generator=random)
        labels = torch.randint(self.classes, (count + 1000,), generator=random)
        return Dataset(
            f"random tensors of {self.data}'s shape",
            inputs[:count],
            labels[:count],
            inputs[count:],
            labels[count:],
            classes=self.classes,
        )


WORKLOADS = {
    "blazefl": Workload(
        "BlazeFL's benchmark: CIFAR-10, LeNet-5, two classes a client, everyone takes part",
        "cifar-10", (3, 32, 32), 10, "lenet5", 100, 500, 100, 50, 5, 0.1, 5,
        {"BlazeFL, H100 server with 48 cores": "30 s", "Flower, the same server": "93 s"}, 2,
    ),
    "pfl": Workload(
        "pfl-research's benchmark: CIFAR-10, its CNN, 1000 IID clients",
        "cifar-10", (3, 32, 32), 10, "cnn-pfl", 1000, 50, 50, 10, 1, 0.1, 1500, {},
    ),
    "flute-femnist": Workload(
        "FLUTE's benchmark: FEMNIST, FedML's CNN with dropout, 3400 clients",
        "femnist", (1, 28, 28), 62, "cnn-pfl", 3400, 200, 10, 20, 1, 0.1, 1500,
        {"FLUTE": "8:22", "FedML": "5:49:52"},
    ),
    "flute-cifar100": Workload(
        "FLUTE's benchmark: fed-CIFAR-100, ResNet-18 with GroupNorm, 500 clients",
        "fed-cifar-100", (3, 32, 32), 100, "resnet18-gn", 500, 100, 10, 20, 1, 0.1, 4000,
        {"FLUTE": "1:42:01", "FedML": "15:55:36"},
    ),
}  # fmt: skip


def run_workload(
    name: str, rounds: int | None = None, device: str = "cpu", announce: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Time so many rounds of the workload of this name, and say what ran where and by which command."""
    work = choose(WORKLOADS, name, "workload")
    data = work.dataset()
    announce(f"{name}: {work.title}, on {data.name}")
    result = time_workload(work, data, rounds, device)
    some = f" --rounds {result['rounds']}" if result["extrapolated"] else ""
    command = f"fedamd bench workloads --workload {name} --device {device}{some}"
    return {"workload": name, "command": command, **result}


def time_workload(work: Workload, data: Dataset, rounds: int | None, device: str) -> dict[str, Any]:
    """Time so many rounds, all of them unless told, with one evaluation at the end."""
    _forget_peaks(device)
    taken = min(rounds or work.rounds, work.rounds)
    settings: dict[str, Any] = {
        "clients": work.clients,
        "cohort": work.cohort,
        "rounds": taken,
        "evaluate_every": taken,
        "device": device,
        "model": {"name": work.model},
    }
    if work.classes_per_client:
        settings["partition"] = {"name": "classes", "classes_per_client": work.classes_per_client}
    method = FedAvg(eta_l=work.eta_l, steps=work.steps, small_batch=work.batch)
    experiment = build_experiment(load_config(settings), dataset=data, algorithm=method)
    ends: list[float] = []
    begun = time.perf_counter()
    resolved = choose_engine("auto", "auto", experiment.model, experiment.dataset, batch=work.batch)
    clock = as_sinks(lambda *_: ends.append(time.perf_counter() - begun))
    Session([Run(experiment)], resolved.engine, clock).run()
    seconds = ends[-1]
    first, *later = (after - before for before, after in pairwise(ends))
    each = statistics.median(later[:-1] or later or [first])  # the last round has the evaluation
    evaluation = max(0.0, later[-1] - each) if later else 0.0
    return {
        "title": work.title,
        "data": data.name,
        "machine": torch.cuda.get_device_name() if device.startswith("cuda") else processor(),
        "cores": torch.get_num_threads(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        **resolved.facts(),
        "rounds": len(later) + 1,  # fewer than asked for where it diverged
        "of": work.rounds,
        "seconds": seconds,
        "first_round": first,
        "each_round": each,
        "evaluation": evaluation,
        "whole_workload": seconds if taken == work.rounds else first + each * (work.rounds - 1) + evaluation,
        "extrapolated": taken < work.rounds,
        "peak_cpu_gib": _peak_gib(),
        "peak_gpu_gib": torch.cuda.max_memory_allocated() / 2**30 if device.startswith("cuda") else None,
        "quoted": work.quoted,
    }


def _forget_peaks(device: str) -> None:
    """So that the peaks are this workload's and not those of one before it in the same process."""
    if device.startswith("cuda") and torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    with contextlib.suppress(OSError):  # only Linux can
        Path("/proc/self/clear_refs").write_text("5")


def _peak_gib() -> float | None:
    """The most memory this process has had since; None where the system does not say."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmHWM:"))) / 2**20
    return None
