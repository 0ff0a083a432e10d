"""On a CPU a run's bits are its own: the same alone and in a grid, in any chunks, on any number of workers."""

import hashlib

import pytest
from torch import Generator, manual_seed, nn, randint, randn

from fedamd.algorithms import FedAMD, FedAvg
from fedamd.algorithms.base import Algorithm
from fedamd.data.base import Dataset
from fedamd.data.partition import Dirichlet, Iid
from fedamd.engines.vector import VectorEngine
from fedamd.models import MLP
from fedamd.oracles.native.oracle import NativeOracle
from fedamd.runs.config import load_config
from fedamd.runs.experiment import build_experiment
from fedamd.runs.rounds import drive
from fedamd.runs.run import Run

ROUNDS = 4
METHODS = (
    FedAMD(eta_l=0.05, steps=3, small_batch=20, p=0.5, start_up="zeros"),
    FedAMD(eta_l=0.1, steps=2, small_batch="full", tau=2, cache="client"),
    FedAvg(eta_l=0.1, steps=3, small_batch=50),
)


def problem() -> Dataset:
    """Clients between a handful and several hundred samples, whose full batches the library cuts into pieces."""
    random = Generator().manual_seed(0)
    inputs, labels = randn(2000, 12, generator=random), randint(4, (2000,), generator=random)
    return Dataset("random", inputs, labels, inputs[:50], labels[:50], classes=4)


def run_of(method: Algorithm, data: Dataset, model: nn.Module, seed: int) -> Run:
    config = load_config({"clients": 9, "cohort": 4 + seed % 3, "rounds": ROUNDS, "seed": seed})
    partition = (Dirichlet(0.3) if seed % 2 else Iid())(data, 9, seed)
    owned = Dataset(**(vars(data) | {"clients": partition}))
    return Run(build_experiment(config, dataset=owned, model=model, algorithm=method))


def hashes(engine: VectorEngine, runs: list[Run]) -> list[list[str]]:
    """SHA-256 of every run's model after every round."""
    found: dict[int, list[str]] = {id(run): [] for run in runs}
    drive(runs, engine, lambda run, _: found[id(run)].append(hashlib.sha256(run.state.x.numpy().tobytes()).hexdigest()))
    return [found[id(run)] for run in runs]


@pytest.mark.usefixtures("library")
def test_a_run_has_the_same_bits_alone_and_in_a_grid() -> None:
    manual_seed(0)
    data, model = problem(), MLP(12, 7, 4)

    def engine(samples_at_once: int, workers: int) -> VectorEngine:
        shared = NativeOracle(model, data, workers)
        return VectorEngine(NativeOracle(model, data), samples_at_once, workers=[shared] * workers)

    cases = [(method, seed) for method in METHODS for seed in range(4)]
    alone = [hashes(engine(640, 1), [run_of(method, data, model, seed)])[0] for method, seed in cases]
    for samples_at_once, workers in ((640, 1), (64, 3), (10_000, 2), (640, 70)):
        together = hashes(
            engine(samples_at_once, workers), [run_of(method, data, model, seed) for method, seed in cases]
        )
        assert together == alone
    assert len({tuple(points) for points in alone}) == len(cases)  # they are different runs
