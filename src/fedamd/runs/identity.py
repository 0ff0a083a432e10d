"""What a checkpoint is bound to: the settings, the data and the model that the trajectory of a run follows from."""

import json
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from fedamd.data.base import Clients, Dataset, Partition
from fedamd.errors import FedamdError
from fedamd.files import read_text
from fedamd.oracles.objective import trainable
from fedamd.runs.checkpoint import tensor_digest
from fedamd.runs.config import Config
from fedamd.runs.experiment import Experiment
from fedamd.runs.sealed import digest

CHANGEABLE = frozenset(  # in a run that has begun: what leaves its trajectory alone
    (
        *("rounds", "target", "target_accuracy", "evaluate_every", "evaluate_clients_every", "metrics"),
        *("checkpoint_every", "engine", "oracle", "device", "micro_batch", "stop", "callbacks"),
    )
)
_WORDS = {
    "config": "config.toml",
    "given": "the objects given for its sections",
    "data": "the data",
    "model": "the model",
    "files": "what a file says of the clients",
}
_digests: dict[int, str] = {}  # of data sets that are alive: many runs may share one


def identity(settings: Mapping[str, Any], given: Mapping[str, str], experiment: Experiment) -> dict[str, Any]:
    """The settings as the folder has them (other versions may have other defaults), the data, and the model's shape."""
    return {
        "config": settings_digest(settings),
        "given": dict(given),
        "data": _data(experiment.dataset, experiment.clients),
        "model": parameter_shapes(experiment.model),
        "files": _files(experiment.config),
    }


def settings_digest(settings: Mapping[str, Any]) -> str:
    """Of what the trajectory follows from."""
    kept = {key: value for key, value in settings.items() if key not in CHANGEABLE}
    return digest(json.dumps(kept, sort_keys=True, default=str))


def refuse_other(begun: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """A run goes on with what it began with, or not at all."""
    for part, words in _WORDS.items():
        if begun.get(part) != now[part] and (part in begun or part != "files"):  # earlier versions did not note them
            raise FedamdError(f"{words} changed since it was written{_how(begun.get(part), now[part])}")


def parameter_shapes(model: nn.Module) -> dict[str, list[int]]:
    """How the flat vector x divides into the model's parameters."""
    return {name: list(parameter.shape) for name, parameter in trainable(model).items()}


def _data(dataset: Dataset, clients: Clients) -> dict[str, Any]:
    return {
        "samples": len(dataset.inputs),
        "test_samples": len(dataset.test_inputs),
        "clients": len(clients),
        "content": _content(dataset),
        "partition": tensor_digest(clients.order) + tensor_digest(clients.offsets)
        if isinstance(clients, Partition)
        else None,  # it follows from the config
    }


def _files(config: Config) -> dict[str, str]:
    """The files that say when clients are there, and how fast they are."""
    named = [one for one in (config.devices, *config.sampler.options.values()) if isinstance(one, str)]
    return {one: digest(read_text(Path(one))) for one in named if Path(one).is_file()}


def _content(dataset: Dataset) -> str:
    if (key := id(dataset)) not in _digests:
        tensors = (dataset.inputs, dataset.targets, dataset.test_inputs, dataset.test_targets)
        _digests[key] = digest(*map(tensor_digest, tensors))
        weakref.finalize(dataset, _digests.pop, key)
    return _digests[key]


def _how(before: object, after: object) -> str:
    """In which of their entries two descriptions differ."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return ""
    differ = [key for key in before | after if before.get(key) != after.get(key)]
    told = "; ".join(f"{key} was {before.get(key)}, is {after.get(key)}" for key in differ[:3])
    return f" ({told})"
