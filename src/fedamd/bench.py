"""How fast this machine simulates a round: the fastest CPU path against a plain PyTorch loop over clients.

The workload W: 100 clients × 600 samples, 20 clients a round, K = 10 local steps on b' = 64 samples, evaluation on
10,000 images; LeNet-5 or the MLP on Fashion-MNIST (or random images of its shape where it is not installed: the
arithmetic is the same). Timed are its phases, and whole rounds of three methods as `fedamd run` drives them, in turns,
so that all sides see the same disturbances; a phase's ratio is the median of the ratios of all turns. A path far from
the fastest is timed once.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedamd.algorithms.base import Algorithm, Batches, Exchange, Order
from fedamd.algorithms.fedamd import FedAMD, aim, mine
from fedamd.algorithms.fedavg import FedAvg
from fedamd.algorithms.local import walk
from fedamd.data import Dataset, load, where
from fedamd.data.partition import Iid
from fedamd.engines import make_engine
from fedamd.engines.base import Engine, Request, Site
from fedamd.engines.client_store import MemoryStore
from fedamd.models import MLP, LeNet5
from fedamd.oracles.objective import flat_parameters
from fedamd.runs.config import load_config
from fedamd.runs.experiment import build_experiment
from fedamd.runs.run import Run
from fedamd.runs.session import Session
from fedamd.theory.probability import optimal_nonconvex

COHORT, STEPS, SMALL, CLIENTS = 20, 10, 64, 100
RATE = 0.01
_PAUSE = 0.02  # seconds before each timing, until the threads of the path before have stopped spinning
_BASE = "plain loop"  # what ratios are taken to


@dataclass(frozen=True)
class BenchedModel:
    """A model and its data, dealt out to the clients."""

    model: nn.Module
    dataset: Dataset
    owned: list[Tensor]

    @classmethod
    def of(cls, model: str) -> "BenchedModel":
        dataset = load("fashion-mnist") if where("fashion-mnist") else _random_images()
        clients = Iid()(dataset, CLIENTS, 0)
        net = LeNet5(1, 28, 28, 10) if model == "lenet5" else MLP(784, 100, 10)
        return cls(net, dataset, [clients.samples(m) for m in range(CLIENTS)])


class PlainLoop:
    """What one writes first: for each client, load the model, loop over batches, autograd."""

    def __init__(self, work: BenchedModel) -> None:
        self._work = work
        self._net = work.model
        self._x = flat_parameters(work.model)

    def fedavg(self) -> None:
        for client in range(COHORT):
            self._load()
            for _ in range(STEPS):
                gradients = self._gradients(self._batch(client))
                self._step(gradients)

    def miners(self) -> None:
        """The recursive gradient at two points on every batch but the first, as FedAMD's miners take it."""
        for client in range(COHORT):
            self._load()
            g = [torch.zeros_like(p) for p in self._net.parameters()]
            previous = [p.detach().clone() for p in self._net.parameters()]
            for k in range(STEPS):
                batch = self._batch(client)
                if k:
                    current = [p.detach().clone() for p in self._net.parameters()]
                    new = self._gradients(batch)
                    self._put(previous)
                    old = self._gradients(batch)
                    self._put(current)
                    g = [a + b - c for a, b, c in zip(g, new, old, strict=True)]
                    previous = current
                self._step(g)

    def anchors(self) -> None:
        for client in range(COHORT):
            self._load()
            self._gradients(self._work.owned[client])

    @torch.no_grad()
    def evaluation(self) -> None:
        data, correct = self._work.dataset, 0
        for images, labels in zip(data.test_inputs.split(1000), data.test_targets.split(1000), strict=True):  # type: ignore[no-untyped-call]
            correct += int((self._net(images).argmax(-1) == labels).sum())

    def _load(self) -> None:
        nn.utils.vector_to_parameters(self._x, self._net.parameters())

    def _batch(self, client: int) -> Tensor:
        owned = self._work.owned[client]
        return owned[torch.randperm(len(owned))[:SMALL]]

    def _gradients(self, samples: Tensor) -> list[Tensor]:
        data = self._work.dataset
        loss = F.cross_entropy(self._net(data.inputs[samples]), data.targets[samples])
        return list(torch.autograd.grad(loss, list(self._net.parameters())))

    @torch.no_grad()
    def _put(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self._net.parameters(), values, strict=True):
            parameter.copy_(value)

    @torch.no_grad()
    def _step(self, gradients: list[Tensor]) -> None:
        for parameter, gradient in zip(self._net.parameters(), gradients, strict=True):
            parameter.sub_(gradient, alpha=RATE)


class BenchedRounds:
    """The same phases through an engine: whole exchanges, batches drawn and replies accepted."""

    def __init__(self, work: BenchedModel, engine: Engine) -> None:
        self._engine = engine
        self._x = flat_parameters(work.model)
        self._site = Site(0, Iid()(work.dataset, CLIENTS, 0), MemoryStore())
        self._t = 0

    def fedavg(self) -> None:
        self._exchange(walk.to(range(COHORT), Batches(STEPS, SMALL), x=self._x, eta_l=RATE))

    def miners(self) -> None:
        bullseye = torch.zeros_like(self._x)
        self._exchange(mine.to(range(COHORT), Batches(STEPS, SMALL), x=self._x, bullseye=bullseye, eta_l=RATE))

    def anchors(self) -> None:
        self._exchange(aim.to(range(COHORT), Batches(1, "full"), x=self._x))

    def evaluation(self) -> None:
        self._engine.evaluate([self._x])

    def _exchange(self, order: Order) -> None:
        self._t += 1
        self._engine.execute([Request(self._site, self._t, 0, Exchange(order))])


class Training:
    """A method's whole rounds through an engine: sampling, exchange, server's step, evaluation, record."""

    ROUNDS = 2  # at once: one of anchors and one of miners where they alternate

    def __init__(self, work: BenchedModel, engine: Engine, algorithm: Algorithm) -> None:
        config = load_config({"clients": CLIENTS, "cohort": COHORT, "rounds": 10**9}, {})
        experiment = build_experiment(config, dataset=work.dataset, model=work.model, algorithm=algorithm)
        self._run = Run(experiment)
        self._session = Session([self._run], engine)
        self._drive_to(0)  # whatever comes before the first round

    def __call__(self) -> None:
        self._drive_to(self._run.t + self.ROUNDS)

    def _drive_to(self, t: int) -> None:
        self._session.advance(until=lambda: self._run.t >= t)


PHASES = ("fedavg", "miners", "anchors", "evaluation")
METHODS: dict[str, Algorithm] = {
    "FedAvg": FedAvg(eta_l=RATE),
    "FedAMD (constant)": FedAMD(p="optimal", eta_l=RATE, start_up="zeros"),
    "FedAMD (sequential)": FedAMD(tau=2, eta_l=RATE, start_up="zeros"),
}


def _plain_rounds(phases: Mapping[str, float]) -> dict[str, float]:
    """What the methods' rounds take the plain loop, put together from its phases."""
    p = optimal_nonconvex(COHORT)
    clients = {
        "FedAvg": phases["fedavg"],
        "FedAMD (constant)": p * phases["anchors"] + (1 - p) * phases["miners"],
        "FedAMD (sequential)": (phases["anchors"] + phases["miners"]) / 2,
    }
    return {method: seconds + phases["evaluation"] for method, seconds in clients.items()}


def bench(
    model: str = "lenet5", repetitions: int = 9, announce: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Seconds of every phase and every method's round on every path; the plain loop's over the fastest one's."""
    work = BenchedModel.of(model)
    engines = _engines(work, announce)
    paths = {_BASE: PlainLoop(work)} | {name: BenchedRounds(work, engine) for name, engine in engines.items()}
    taken: dict[str, dict[str, list[float]]] = {}
    for phase in PHASES:
        announce(f"{model}: {phase}")
        taken[phase] = _in_turns({name: getattr(path, phase) for name, path in paths.items()}, repetitions)
    seconds = {name: {phase: statistics.median(taken[phase][name]) for phase in PHASES} for name in paths}
    fastest = {phase: _fastest(taken[phase]) for phase in PHASES}
    rounds = {_BASE: _plain_rounds(seconds[_BASE])} | {name: {} for name in engines}
    for method, algorithm in METHODS.items():
        announce(f"{model}: rounds of {method}")
        actions = {name: Training(work, engine, algorithm) for name, engine in engines.items()}
        for name, times in _in_turns(actions, (repetitions + 2) // 3).items():
            rounds[name][method] = statistics.median(times) / Training.ROUNDS
    return {
        "model": model,
        "threads": torch.get_num_threads(),
        "seconds": seconds,
        "fastest": fastest,
        "ratios": {phase: _ratio(taken[phase][_BASE], taken[phase][fastest[phase]]) for phase in PHASES},
        "rounds": rounds,
        "round_ratios": {
            method: rounds[_BASE][method] / min(path[method] for path in rounds.values()) for method in METHODS
        },
    }


def _engines(work: BenchedModel, announce: Callable[[str], None]) -> dict[str, Engine]:
    """Those that can run here."""
    found: dict[str, Engine] = {}
    ways = {"native": ("vector", "native"), "loop + autograd": ("loop", "autograd"), "vmap": ("vector", "autograd")}
    for name, (engine, oracle) in ways.items():
        try:
            found[name] = make_engine(engine, oracle, work.model, work.dataset)
        except ValueError as reason:
            announce(f"{name}: {reason}")
    return found


def _fastest(taken: Mapping[str, list[float]]) -> str:
    """Of the paths that were timed in every turn."""
    turns = max(map(len, taken.values()))
    return min((name for name in taken if len(taken[name]) == turns), key=lambda name: statistics.median(taken[name]))


def _ratio(slow: list[float], fast: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


def _in_turns(actions: Mapping[str, Callable[[], None]], repetitions: int) -> dict[str, list[float]]:
    """The times of each action, one after the other in every repetition, after one that is not counted.

    An action that takes more than twice as long as the fastest is left at that first one, unless it is the base.
    """
    first = {name: _timed(action) for name, action in actions.items()}
    again = [name for name, seconds in first.items() if name == _BASE or seconds <= 2 * min(first.values())]
    taken: dict[str, list[float]] = {name: [] if name in again else [seconds] for name, seconds in first.items()}
    for _ in range(repetitions):
        for name in again:
            taken[name].append(_timed(actions[name]))
    return taken


def _timed(action: Callable[[], None]) -> float:
    time.sleep(_PAUSE)
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def _random_images() -> Dataset:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(70_000, 1, 28, 28, generator=generator)
    labels = torch.randint(10, (70_000,), generator=generator)
    return Dataset("random images", images[:60_000], labels[:60_000], images[60_000:], labels[60_000:], classes=10)
