"""What is measured beyond test loss and accuracy: the config's metrics, and every client's own held-out data.

Both are computed from the model's outputs on all samples at once, one forward pass in pieces, by PyTorch on the run's
device; an engine's own evaluation (loss and accuracy) stays as fast as its oracle is, and so does that of clients where
nothing else is asked for and native code takes the model.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fedamd import draw
from fedamd.data.base import Clients, ClientTests, Dataset, Partition
from fedamd.draw import Purpose
from fedamd.errors import FedamdError, at_work
from fedamd.metrics import METRICS, Metric
from fedamd.oracles.objective import Objective
from fedamd.runs.client_scores import ClientScores, means, samples_of

_PIECE = 2500  # samples in one forward pass
_SHOWN = 10_000  # with more clients than these, their own values are not recorded, only how they are spread

Spread = dict[str, float | list[float | None] | None]


@dataclass(frozen=True)
class Evaluation:
    """Measures a model x by named metrics on the test set, and by all of them on every client's own tests."""

    objective: Objective
    dataset: Dataset
    metrics: Sequence[Metric]
    tests: ClientTests | None = None
    native: bool = False  # whether native code may score the clients

    @cached_property
    def _rows(self) -> list[Tensor]:
        assert self.tests is not None
        return samples_of(self.tests.owners)

    @cached_property
    def _scores(self) -> ClientScores | None:
        """Where loss and accuracy are all that is wanted."""
        if not self.native or self.metrics or self.tests is None:
            return None
        return ClientScores.made(self.objective.model, self.dataset, self.tests)

    def on_test_set(self, x: Tensor) -> dict[str, float]:
        """Every metric that the engine does not measure anyway."""
        if not self.metrics:
            return {}
        _, outputs = self._forward(x, self.dataset.test_inputs, self.dataset.test_targets)
        return {metric.name: metric(outputs, self.dataset.test_targets) for metric in self.metrics}

    def by_class(self, x: Tensor) -> list[float]:
        """The accuracy on each class's test samples; NaN where a class has none."""
        _, outputs = self._forward(x, self.dataset.test_inputs, self.dataset.test_targets)
        right = METRICS["accuracy"].parts
        assert right is not None
        return means(*right(outputs, self.dataset.test_targets), self.dataset.test_targets)

    def on_clients(self, x: Tensor) -> dict[str, Spread]:
        """Loss, accuracy and every metric, as they are spread over the clients that have tests of their own."""
        if self.tests is None:
            return {}
        measured = self._by_forward_pass(x, self.tests) if self._scores is None else self._scores.at(x)
        better = {metric.name: metric.higher_is_better for metric in (METRICS["accuracy"], *self.metrics)}
        return {name: spread(values, better.get(name, False)) for name, values in measured.items()}

    def _by_forward_pass(self, x: Tensor, tests: ClientTests) -> dict[str, list[float]]:
        losses, outputs = self._forward(x, tests.inputs, tests.targets)
        measured = {"loss": means(losses, torch.ones_like(losses), tests.owners)}
        for metric in (*([METRICS["accuracy"]] if self.dataset.classes else []), *self.metrics):
            if metric.parts is not None:
                measured[metric.name] = means(*metric.parts(outputs, tests.targets), tests.owners)
            else:
                measured[metric.name] = [
                    self._on_client(metric, client, outputs, own) if len(own) else math.nan
                    for client, own in enumerate(self._rows)
                ]
        return measured

    def _on_client(self, metric: Metric, client: int, outputs: Tensor, own: Tensor) -> float:
        assert self.tests is not None
        with at_work(f"the tests of client {client}"):
            return metric(outputs[own], self.tests.targets[own])

    @torch.no_grad()
    def _forward(self, x: Tensor, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Losses and outputs of all samples."""
        pieces = zip(torch.split(inputs, _PIECE), torch.split(targets, _PIECE), strict=True)
        losses, outputs = zip(*(self.objective.at(x, *piece) for piece in pieces), strict=True)
        return torch.cat(losses), torch.cat(outputs)


def spread(values: Sequence[float], higher_is_better: bool) -> Spread:
    """How a number is spread over clients; `worst_decile` is the mean of the worst tenth, of at least one client."""
    known = np.sort(np.array([value for value in values if math.isfinite(value)]))
    if not len(known):
        return {}
    worst = known if higher_is_better else known[::-1]
    return {
        "min": float(known[0]),
        "p10": float(np.quantile(known, 0.1)),
        "median": float(np.median(known)),
        "mean": float(known.mean()),
        "max": float(known[-1]),
        "worst_decile": float(worst[: max(1, len(known) // 10)].mean()),
        "variance": float(known.var()),
        "values": [_brief(value) for value in values] if len(values) <= _SHOWN else None,
    }


def hold_out(dataset: Dataset, clients: Clients, share: float, seed: int) -> tuple[Clients, ClientTests]:
    """Take a share of every client's samples from its training data as tests of its own, chosen by address.

    A client keeps at least one sample to train on.
    """
    if not isinstance(clients, Partition):
        raise FedamdError("test_share needs clients with samples in memory, and these are made as they are asked for")
    train: list[Tensor] = []
    tests: list[Tensor] = []
    for client, size in enumerate(clients.sizes):
        count = min(size - 1, round(share * size))
        chosen = torch.zeros(size, dtype=torch.bool)
        chosen[list(draw.sample(size, count, seed, Purpose.HOLD_OUT, client))] = True
        own = clients.samples(client).cpu()
        train.append(own[~chosen])
        tests.append(own[chosen])
    samples = torch.cat(tests).to(dataset.inputs.device)
    owners = torch.repeat_interleave(torch.arange(len(tests)), torch.tensor([len(own) for own in tests]))
    if not len(samples):
        raise FedamdError(f"test_share = {share:g} leaves no client a test sample: give clients more data or raise it")
    own_tests = ClientTests(dataset.inputs[samples], dataset.targets[samples], owners.to(samples.device))
    return Partition.of(train), own_tests


def finite(measured: Mapping[str, float]) -> dict[str, float | None]:
    """None for what is not a finite number."""
    return {name: value if math.isfinite(value) else None for name, value in measured.items()}


def _brief(value: float) -> float | None:
    """Five digits are enough to rank clients, and keep a line short."""
    return float(f"{value:.5g}") if math.isfinite(value) else None
