"""From a config to the things it names: data, clients, model, method, and the point x_0 where training starts."""

import inspect
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from fedamd import draw, models
from fedamd.algorithms.base import Algorithm, Federation
from fedamd.data import SOURCES, load
from fedamd.data.base import Clients, Dataset
from fedamd.draw import Purpose
from fedamd.errors import FedamdError
from fedamd.oracles.objective import flat_parameters, refuse_hidden_state
from fedamd.runs.config import Config


@dataclass(frozen=True)
class Experiment:
    """Everything a run needs but an engine."""

    config: Config
    dataset: Dataset
    clients: Clients
    model: nn.Module
    algorithm: Algorithm
    x0: Tensor

    @property
    def federation(self) -> Federation:
        return Federation(self.config.clients, self.config.cohort, self.clients.sizes)


def build_experiment(
    config: Config,
    *,
    dataset: Dataset | None = None,
    model: nn.Module | None = None,
    algorithm: Algorithm | None = None,
) -> Experiment:
    """Build what the config names; an object given here stands in for its section."""
    dtype = getattr(torch, config.dtype)
    device = _device(config.device)
    data = (load_data(config) if dataset is None else dataset).to(device, dtype)
    clients = config.build_partitioner()(data, config.clients, config.seed)
    if len(clients) != config.clients:
        raise FedamdError(
            f"clients is {config.clients}, but partition {config.partition.name} gives {len(clients)} clients"
        )
    net = (build_model(config, data) if model is None else model).to(device, dtype)
    refuse_hidden_state(net)
    return Experiment(
        config, data, clients.to(device), net, algorithm or config.build_algorithm(), flat_parameters(net)
    )


def load_data(config: Config) -> Dataset:
    """The data set; a synthetic one is made for this many clients and this seed unless its section says otherwise."""
    accepts = inspect.signature(SOURCES[config.data.name].read).parameters
    own = {name: getattr(config, name) for name in ("clients", "seed") if name in accepts}
    return _loaded(config.data.name, tuple(sorted((own | config.data.options).items())))


def build_model(config: Config, dataset: Dataset) -> nn.Module:
    """The model, its initial weights drawn from the run's seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw.bits(config.seed, Purpose.MODEL) >> 1)
        return models.build(config.model.name, dataset, **config.model.options)


@lru_cache(maxsize=4)
def _loaded(name: str, options: tuple[tuple[str, Any], ...]) -> Dataset:
    return load(name, **dict(options))


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise FedamdError('device is cuda, but this PyTorch sees no CUDA device; use device = "cpu"')
    return torch.device(name)
