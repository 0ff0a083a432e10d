"""Running an algorithm on a small quadratic problem through the real stack, for tests: `from support import simulate`.

And running commands in several processes: `from support import torchrun`.

Client i's samples are pairs (centre z, curvature h) of numbers or of vectors; ℓ(x; z, h) = ½ Σ_j h_j (x_j − z_j)².
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedamd.algorithms.base import Algorithm, Answers, Replies, State
from fedamd.data.base import Dataset, Partition
from fedamd.engines.base import Engine, Request
from fedamd.engines.loop import LoopEngine
from fedamd.models import Quadratic
from fedamd.oracles.autograd import AutogradOracle
from fedamd.runs.config import load_config
from fedamd.runs.experiment import Experiment, build_experiment
from fedamd.runs.records import Record
from fedamd.runs.rounds import drive
from fedamd.runs.run import Listener, Run

Point = float | Sequence[float]
PYTHONPATH = os.pathsep.join(sys.path)  # so that a child process finds what the tests find


def quadratic_problem(*clients: Sequence[tuple[Point, Point]]) -> Dataset:
    """One list of samples per client: `quadratic_problem([(1.0, 2.0)], [(-1.0, 1.0), (3.0, 1.0)])` is d = 1, M = 2."""
    samples = [
        torch.tensor([centre, curvature], dtype=torch.float64) for owned in clients for centre, curvature in owned
    ]
    inputs = torch.stack([sample.reshape(2, -1) for sample in samples])
    targets = torch.zeros(len(inputs), dtype=torch.int64)
    owned = iter(range(len(inputs)))
    partition = Partition.of([[next(owned) for _ in client] for client in clients])
    return Dataset("quadratic", inputs, targets, inputs, targets, classes=0, clients=partition)


PAIR = quadratic_problem([(1.0, 1.0)], [(-1.0, 3.0)])
"""Two clients worked by hand in many tests: ∇F_0 = x − 1 and ∇F_1 = 3x + 3, so ∇F = 2x + 1 and x* = −1/2."""

TRIPLES = quadratic_problem([(1.0, 1.0)] * 3, [(-1.0, 3.0)] * 3)
"""The same two clients with each sample three times: nothing changes but what batches cost."""


def client_gradient(dataset: Dataset, client: int, x: Tensor | float) -> Tensor:
    """∇F_m(x), from the definition."""
    assert dataset.clients is not None
    centre, curvature = dataset.inputs[dataset.clients.samples(client)].unbind(1)
    return (curvature * (x - centre)).mean(0)


def optimum(dataset: Dataset) -> Tensor:
    """x*, where the mean of all ∇F_m is zero."""
    assert dataset.clients is not None
    at_zero = torch.stack([client_gradient(dataset, m, 0.0) for m in range(len(dataset.clients))]).mean(0)
    at_one = torch.stack([client_gradient(dataset, m, 1.0) for m in range(len(dataset.clients))]).mean(0)
    return -at_zero / (at_one - at_zero)


def experiment(
    algorithm: Algorithm,
    dataset: Dataset,
    rounds: int,
    cohort: int | None = None,
    seed: int = 0,
    failure_rate: float = 0.0,
    x0: Point = 0.0,
) -> Experiment:
    """The algorithm on the quadratic, everyone in the cohort unless told, in float64, from x_0."""
    assert dataset.clients is not None
    clients = len(dataset.clients)
    config = load_config(
        {
            "data": {"name": "quadratic"},
            "clients": clients,
            "cohort": cohort or clients,
            "rounds": rounds,
            "seed": seed,
            "failure_rate": failure_rate,
            "dtype": "float64",
        }
    )
    model = Quadratic(dataset.inputs.shape[-1]).to(torch.float64)
    with torch.no_grad():
        model.x.copy_(torch.as_tensor(x0, dtype=torch.float64))
    return build_experiment(config, dataset=dataset, model=model, algorithm=algorithm)


class Witness(Engine):
    """An engine that remembers what it was asked and what came back."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.heard: list[tuple[int, Answers]] = []  # (round, replies by role), exchange after exchange

    def execute(self, requests: Sequence[Request]) -> list[Answers]:
        answers = self._engine.execute(requests)
        self.heard += [(request.t, answer) for request, answer in zip(requests, answers, strict=True)]
        return answers

    def evaluate(self, xs: Sequence[Tensor]) -> list[tuple[float, float]]:
        return self._engine.evaluate(xs)


def simulate(
    algorithm: Algorithm,
    dataset: Dataset,
    rounds: int,
    cohort: int | None = None,
    seed: int = 0,
    failure_rate: float = 0.0,
    x0: Point = 0.0,
    engine: Engine | None = None,
    listen: Listener = lambda *_: None,
) -> Run:
    """The run after its last round: `.state`, `.records`, `.ledger`, `.start_up`, `.site.store`."""
    one = Run(experiment(algorithm, dataset, rounds, cohort, seed, failure_rate, x0))
    drive([one], engine or reference_engine(one.experiment), listen)
    return one


def reference_engine(made: Experiment) -> LoopEngine:
    """The loop over automatic differentiation."""
    return LoopEngine(AutogradOracle(made.model, made.dataset))


@dataclass(frozen=True)
class Seen:
    """One round as a witness saw it: the state before and after it, and the replies of its exchanges by role name."""

    t: int
    before: State
    after: State
    replies: dict[str, Replies]


def witness(algorithm: Algorithm, dataset: Dataset, rounds: int, **how: Any) -> tuple[Run, list[Seen]]:
    """Simulate, and say for every round what came back and what became of it."""
    one = Run(experiment(algorithm, dataset, rounds, **how))
    engine = Witness(reference_engine(one.experiment))
    seen: list[Seen] = []
    before = one.state

    def note(run: Run, record: Record) -> None:
        nonlocal before
        after = State(**{name: value.clone() for name, value in run.state.items()})  # a cache changes in place
        if record.round >= 0:
            replies = {name: each for t, answer in engine.heard if t == record.round for name, each in answer.items()}
            seen.append(Seen(record.round, before, after, replies))
        before = after

    drive([one], engine, note)
    return one, seen


def held(run: Run, name: str) -> Tensor:
    """What every client holds under this name, (M, d)."""
    return run.site.store.read(name, range(run.config.clients), run.state.x)


def trajectory(algorithm: Algorithm, dataset: Dataset, rounds: int, **how: Any) -> Tensor:
    """x_1 … x_T as rows."""
    points: list[Tensor] = []
    simulate(algorithm, dataset, rounds, listen=lambda run, _: points.append(run.state.x.clone()), **how)
    return torch.stack(points[1:])  # without x_0, which the start-up pass reports


def close(actual: Tensor, expected: Any, tolerance: float = 1e-12) -> bool:
    """Whether all numbers agree to the tolerance."""
    wanted = torch.as_tensor(expected, dtype=actual.dtype).reshape(actual.shape)
    return bool(((actual - wanted).abs() <= tolerance).all())


def torchrun(processes: int, *words: str) -> subprocess.Popen[str]:
    """Real processes on this machine."""
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), *words],
        env=os.environ | {"PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
