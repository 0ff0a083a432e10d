"""The workload W as every framework gets it: the data in memory, LeNet-5, one stopwatch.

The driver `benchmarks/peers.py` writes the data of W to a file and starts one program a framework as
`python run_NAME.py DATA ROUNDS RESULT`; nothing here needs more than NumPy and PyTorch.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

COHORT, STEPS, SMALL, RATE = 20, 10, 64, 0.03  # A, K, b', η_l
EVALUATED_AT_ONCE = 1000

Samples = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Workload:
    """Images and labels of every client, and those of the test set."""

    clients: list[Samples]
    test: Samples

    @classmethod
    def read(cls, path: str) -> "Workload":
        with np.load(path) as arrays:
            images, labels, *test = (torch.from_numpy(arrays[name]) for name in ("x", "y", "test_x", "test_y"))
        return cls(list(zip(images, labels, strict=True)), (test[0], test[1]))


class Stopwatch:
    """Notes the end of every round; the time before the end of the first is start-up and does not count."""

    def __init__(self) -> None:
        self._ends: list[float] = []
        self._accuracies: list[float] = []

    def round_done(self, accuracy: float) -> None:
        """To be called when the global model has been evaluated."""
        self._ends.append(time.perf_counter())
        self._accuracies.append(accuracy)

    def write(self, result: str, version: str) -> None:
        """Leave the seconds of every round after the first, and what was learnt, for the driver."""
        seconds = [after - before for before, after in zip(self._ends, self._ends[1:], strict=False)]
        facts = {"version": version, "torch": torch.__version__, "threads": torch.get_num_threads()}
        Path(result).write_text(json.dumps(facts | {"seconds": seconds, "accuracies": self._accuracies}))


def arguments() -> tuple[str, int, str]:
    """DATA, ROUNDS and RESULT from the command line."""
    data, rounds, result = sys.argv[1:]
    return data, int(rounds), result


def lenet5() -> nn.Sequential:
    """LeNet-5 with 44,426 parameters, from the same start in every framework."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def batches(samples: Samples) -> Iterator[Samples]:
    """K batches of b' samples, each drawn without replacement."""
    images, labels = samples
    for _ in range(STEPS):
        chosen = torch.randperm(len(labels))[:SMALL]
        yield images[chosen], labels[chosen]


def train(net: nn.Module, samples: Samples) -> None:
    """A client's K local steps, for frameworks that leave them to their user."""
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    for images, labels in batches(samples):
        optimizer.zero_grad()
        F.cross_entropy(net(images), labels).backward()
        optimizer.step()


@torch.no_grad()
def accuracy(net: nn.Module, test: Samples) -> float:
    """The share of test images that are labelled right."""
    parts = zip(test[0].split(EVALUATED_AT_ONCE), test[1].split(EVALUATED_AT_ONCE), strict=True)
    return sum(int((net(images).argmax(-1) == labels).sum()) for images, labels in parts) / len(test[1])
