"""Mean loss and accuracy of every client's own tests in native code, where that takes the model."""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from fedamd.data.base import ClientTests, Dataset
from fedamd.oracles.agreement import disagreement
from fedamd.oracles.native.oracle import NativeOracle, in_lanes

FEWEST = 32  # tests a client on average: for fewer, a call for each costs more than one forward pass for all


@dataclass(frozen=True)
class ClientScores:
    """Oracles that share the work, and every client's tests as they take them; None where a client has none."""

    oracles: Sequence[Any]
    samples: Sequence[Any]

    @classmethod
    def made(cls, model: nn.Module, dataset: Dataset, tests: ClientTests) -> Self | None:
        """None where the oracle cannot be sure to compute this model on these samples, or would not be faster."""
        rows = samples_of(tests.owners)
        if len(tests.inputs) < FEWEST * len(rows) or tests.inputs.device.type != "cpu":
            return None
        empty = tests.inputs[:0], tests.targets[:0]
        own = Dataset(dataset.name, tests.inputs, tests.targets, *empty, classes=dataset.classes)
        if NativeOracle.unavailable() or NativeOracle.unsupported(model, own):
            return None
        oracle = NativeOracle(model, own, threads=1)
        if disagreement(oracle, model, own) is not None:
            return None
        return cls(
            oracle.workers(), [in_lanes(tests.inputs[row], tests.targets[row]) if len(row) else None for row in rows]
        )

    def at(self, x: Tensor) -> dict[str, list[float]]:
        """Loss and accuracy of every client; NaN for those without tests."""
        found = torch.full((2, len(self.samples)), math.nan)

        def score(which: int) -> None:
            for client in range(which, len(self.samples), len(self.oracles)):
                if self.samples[client] is not None:
                    found[0, client], found[1, client] = self.oracles[which].score(x, self.samples[client])

        with ThreadPoolExecutor(len(self.oracles)) as pool:
            list(pool.map(score, range(len(self.oracles))))
        return {"loss": found[0].tolist(), "accuracy": found[1].tolist()}


def samples_of(owners: Tensor) -> list[Tensor]:
    """For every client the numbers of its samples; samples of nobody (−1) are left out."""
    order = owners.argsort(stable=True)
    first = int((owners < 0).sum())  # samples of nobody come first
    return list(torch.split(order[first:], torch.bincount(owners[owners >= 0]).tolist()))
