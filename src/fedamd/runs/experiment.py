"""From a config to the things it names: data, clients, model, method, and the point x_0 where training starts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedamd import draw, models, triton_here
from fedamd.algorithms.base import Algorithm, Federation
from fedamd.algorithms.over_rounds import Factor, at_round, check_scheduled
from fedamd.data import SOURCES, load
from fedamd.data.base import Clients, ClientTests, Dataset
from fedamd.data.checks import check_given
from fedamd.draw import Purpose
from fedamd.errors import FedamdError
from fedamd.metrics import Measure, Target, find_metric, measure_for, measured_directions, target_for
from fedamd.oracles.hidden_state import refuse_hidden_state
from fedamd.oracles.objective import Objective, flat_parameters, own_copy
from fedamd.registry import parameters_of
from fedamd.runs.config import Config, refuse_given
from fedamd.runs.evaluation import Evaluation, hold_out
from fedamd.runs.given import given_sections
from fedamd.runs.model_file import load_weights
from fedamd.runs.simulated_time import SimulatedTime
from fedamd.runs.steering import build_devices, build_sampler, build_schedules
from fedamd.runs.theory_rates import Facts, resolve_theory


@dataclass(frozen=True)
class Experiment:
    """Everything a run needs but an engine. What the config left to theory is settled in it."""

    config: Config
    dataset: Dataset
    clients: Clients
    model: nn.Module
    algorithm: Algorithm
    x0: Tensor
    theory: Facts = field(default_factory=dict)  # what theory settled, for the records
    tests: ClientTests | None = None  # the clients' own

    @cached_property
    def federation(self) -> Federation:
        return Federation(self.config.clients, self.config.cohort, self.clients.sizes, build_sampler(self.config))

    @cached_property
    def simulated_time(self) -> SimulatedTime | None:
        """Where the config gives the clients devices."""
        devices = build_devices(self.config)
        return None if devices is None else SimulatedTime(devices, self.clients.sizes, self.config.deadline)

    @cached_property
    def schedules(self) -> dict[str, Factor]:
        """Of the hyper-parameters that change with the round."""
        return build_schedules(self.config)

    def method_of(self, t: int) -> Algorithm:
        """The method with the hyper-parameters of round t."""
        return at_round(self.algorithm, self.schedules, t)

    @cached_property
    def measure(self) -> Measure:
        """What the run is judged by."""
        return measure_for(self.config.metrics, self.dataset.classes)

    @cached_property
    def target(self) -> Target | None:
        """What the run is to reach, for its records."""
        if self.config.target is not None:
            directions = measured_directions(self.config.metrics)
            known = {name: one for name, one in directions.items() if name != "accuracy" or self.dataset.classes}
            return target_for(self.config.target, self.measure, known)
        return Target(Measure(), self.config.target_accuracy) if self.config.target_accuracy else None

    @cached_property
    def evaluation(self) -> Evaluation:
        """What is measured beside test loss and accuracy."""
        named = [name for name in self.config.metrics if name != "accuracy" or not self.dataset.classes]
        metrics = [find_metric(name, self.dataset.classes) for name in named]
        objective = Objective(self.model, self.dataset.classes)
        native = self.config.oracle in ("auto", "native")
        return Evaluation(objective, self.dataset, metrics, self.tests, native)

    def __post_init__(self) -> None:
        """What steers and measures is built with the rest, so that a mistake in it is told before anything runs."""
        check_scheduled(self.algorithm, self.schedules)
        _ = self.simulated_time, self.evaluation, self.target
        sampler = self.federation.sampler
        sampler.cohort(0, self.config.seed, self.config.cohort, self.clients.sizes)  # it may know other clients
        if self.config.evaluate_clients_every is not None and self.tests is None:
            raise FedamdError(
                "evaluate_clients_every needs test samples that belong to clients, and the data set has none: "
                "set test_share, the share of each client's samples that is kept for its own tests"
            )


def build_experiment(
    config: Config,
    *,
    dataset: Dataset | None = None,
    model: nn.Module | None = None,
    algorithm: Algorithm | None = None,
) -> Experiment:
    """Build what the config names; an object given here stands in for its section, and a data set that says who owns
    what stands in for [partition] too. The config of the experiment tells of these objects; they are left as they are.
    """
    config = config.told(given_sections(dataset, model, algorithm))
    dtype = getattr(torch, config.dtype)
    device = _device(config.device)
    triton_here.begin(device)  # while data are read
    data = load_data(config, device, dtype) if dataset is None else check_given(dataset).to(device, dtype)
    config = _for_this_many(config, data)
    clients, tests = share_out(config, data), data.client_tests
    if config.test_share is not None:
        clients, tests = hold_out(data, clients, config.test_share, config.seed)
    net = (build_model(config, data) if model is None else own_copy(model)).to(device, dtype)
    refuse_hidden_state(net)
    clients, x0 = clients.to(device), flat_parameters(net)
    if algorithm is not None:
        return Experiment(config, data, clients, net, algorithm, x0, tests=tests)
    settled, theory = resolve_theory(config, net, data, clients, x0)
    return Experiment(settled, data, clients, net, settled.build_algorithm(), x0, theory, tests)


def _for_this_many(config: Config, data: Dataset) -> Config:
    """Where nobody has said how many clients there are, a data set with clients of its own says it."""
    if data.clients is None or "clients" in config.model_fields_set:
        config.refuse_large_cohort()
        return config
    return config.changed({"clients": len(data.clients)})


def refuse_too_few_clients(config: Config) -> None:
    """Where nobody has said how many clients there are and the cohort is large, the data set is asked for them."""
    if config.cohort > config.clients:
        _for_this_many(config, load_data(config, _device(config.device), getattr(torch, config.dtype)))


def share_out(config: Config, data: Dataset) -> Clients:
    """Who owns what, as the config's partitioner says."""
    clients = config.build_partitioner()(data, config.clients, config.seed)
    if len(clients) != config.clients:
        raise FedamdError(f"clients is {config.clients}, but the data set {data.name} has {len(clients)} clients")
    return clients


def load_data(config: Config, device: torch.device | None = None, dtype: torch.dtype | None = None) -> Dataset:
    """The data set; a synthetic one is made for this many clients and this seed unless its section says otherwise."""
    try:
        return _loaded(config.data.name, data_options(config), device or torch.device("cpu"), dtype)
    except TypeError as error:  # a word or a list where a number belongs
        raise FedamdError(f"data: an option of {config.data.name} is of the wrong type ({error})") from None


def data_options(config: Config) -> tuple[tuple[str, Any], ...]:
    """What the data set is made with: configs of the same data and options share it."""
    refuse_given(config.data, "dataset")
    accepts = parameters_of("data.name", SOURCES.find(config.data.name, "data.name").read)
    own = {name: getattr(config, name) for name in ("clients", "seed") if name in accepts}
    given = {name: tuple(one) if isinstance(one, list) else one for name, one in config.data.options.items()}
    return tuple(sorted((own | given).items()))


def build_model(config: Config, dataset: Dataset) -> nn.Module:
    """The model the config names."""
    refuse_given(config.model, "model")
    options = config.model.options
    weights = options.pop("weights", None)  # a file to start from, whatever the model
    model = seeded_model(config, lambda: models.build(config.model.name, dataset, **options))
    if weights is not None:
        load_weights(model, Path(str(weights)))
    return model


def seeded_model(config: Config, make: Callable[[], nn.Module]) -> nn.Module:
    """What `make` makes, its initial weights drawn from the run's seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw.bits(config.seed, Purpose.MODEL) >> 1)
        return make()


@lru_cache(maxsize=4)
def _loaded(
    name: str, options: tuple[tuple[str, Any], ...], device: torch.device, dtype: torch.dtype | None
) -> Dataset:
    return load(name, **dict(options)).to(device, dtype)


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise FedamdError('device is cuda, but this PyTorch sees no CUDA device; use device = "cpu"')
    return torch.device(name)
