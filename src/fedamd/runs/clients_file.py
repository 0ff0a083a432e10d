"""Who owns which classes, as numbers: rebuilt from a config, or read from the folder of a run whose data cannot be."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedamd.data.base import Clients, Dataset
from fedamd.files import write_text
from fedamd.registry import is_object_path
from fedamd.runs.experiment import Experiment
from fedamd.runs.sealed import read_json, sealed_json

CLIENTS = "clients.json"
SHOWN = 200  # bars beyond this many are narrower than a pixel on a phone
Counts = dict[str, list[int]]  # class → samples of it on each of the first clients


def class_counts(dataset: Dataset, clients: Clients) -> Counts:
    """Samples of every class on each of the first clients; all samples together where there are no classes."""
    shown = range(min(len(clients), SHOWN))
    if not dataset.classes or dataset.targets.dim() != 1:
        return {"samples": [clients.sizes[m] for m in shown]}
    names = dataset.class_names or [f"class {label}" for label in range(dataset.classes)]
    return dict(zip(names, samples_by_class(dataset, clients, shown).T.tolist(), strict=True))


def samples_by_class(dataset: Dataset, clients: Clients, wanted: Sequence[int]) -> Tensor:
    """How many samples of every class each of these clients has, (clients, classes)."""
    targets = dataset.targets.cpu()
    rows = [torch.bincount(targets[clients.samples(m).cpu()], minlength=dataset.classes) for m in wanted]
    return torch.stack(rows)


def keep_clients(folder: Path, experiment: Experiment) -> None:
    """Write down who owns what where nobody could rebuild it: the data set is a user's own."""
    config = experiment.config
    if config.data.given or is_object_path(config.data.name) or is_object_path(config.partition.name):
        told = {"clients": len(experiment.clients), "counts": class_counts(experiment.dataset, experiment.clients)}
        write_text(folder / CLIENTS, sealed_json(told))


def kept_clients(folder: Path) -> dict[str, Any] | None:
    """What `keep_clients` wrote: the number of clients, and their counts."""
    return read_json(folder / CLIENTS, "clients", "counts") if (folder / CLIENTS).exists() else None
