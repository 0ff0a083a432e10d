"""Mean loss and accuracy of every client's own tests in native code, where that takes the model."""

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from fedamd.data.base import ClientTests, Dataset
from fedamd.oracles.agreement import disagreement
from fedamd.oracles.native.oracle import NativeOracle, in_lanes


@dataclass(frozen=True)
class ClientScores:
    """An oracle, and all clients' tests as it takes them: one call scores every sample."""

    oracle: NativeOracle
    samples: Any
    owners: Tensor

    @classmethod
    def made(cls, model: nn.Module, dataset: Dataset, tests: ClientTests) -> Self | None:
        """None where the oracle cannot be sure to compute this model on these samples."""
        if tests.inputs.device.type != "cpu":
            return None
        empty = tests.inputs[:0], tests.targets[:0]
        own = Dataset(dataset.name, tests.inputs, tests.targets, *empty, classes=dataset.classes)
        if NativeOracle.unavailable() or NativeOracle.unsupported(model, own):
            return None
        oracle = NativeOracle(model, own)
        if disagreement(oracle, model, own) is not None:
            return None
        return cls(oracle, in_lanes(tests.inputs, tests.targets), tests.owners)

    def at(self, x: Tensor) -> dict[str, list[float]]:
        """Loss and accuracy of every client; NaN for those without tests."""
        losses, right = self.oracle.score_each(x, self.samples)
        each = torch.ones_like(losses)
        return {"loss": means(losses, each, self.owners), "accuracy": means(right, each, self.owners)}


def means(sums: Tensor, counts: Tensor, owners: Tensor) -> list[float]:
    """Every client's Σ sums / Σ counts over its samples; NaN where it has nothing to count."""
    own = owners >= 0
    totals = (torch.bincount(owners[own], weights=values[own].double()) for values in (sums, counts))
    return torch.div(*totals).tolist()


def samples_of(owners: Tensor) -> list[Tensor]:
    """For every client the numbers of its samples; samples of nobody (−1) are left out."""
    order = owners.argsort(stable=True)
    first = int((owners < 0).sum())  # samples of nobody come first
    return list(torch.split(order[first:], torch.bincount(owners[owners >= 0]).tolist()))
