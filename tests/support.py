"""Running an algorithm on a small quadratic problem through the real stack, for tests: `from support import simulate`.

Client i's samples are pairs (centre z, curvature h) of numbers or of vectors; ℓ(x; z, h) = ½ Σ_j h_j (x_j − z_j)².
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fedamd.algorithms.base import Algorithm
from fedamd.data.base import Dataset, Partition
from fedamd.engines.base import Engine
from fedamd.engines.loop import LoopEngine
from fedamd.models import Quadratic
from fedamd.oracles.autograd import AutogradOracle
from fedamd.runs.config import load_config
from fedamd.runs.experiment import Experiment, build_experiment
from fedamd.runs.rounds import drive
from fedamd.runs.run import Listener, Run

Point = float | Sequence[float]


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
    """The run after its last round: `.state`, `.records`, `.ledger`, `.start_up`, `.site.held`."""
    one = Run(experiment(algorithm, dataset, rounds, cohort, seed, failure_rate, x0))
    drive([one], engine or LoopEngine(AutogradOracle(one.experiment.model, one.experiment.dataset)), listen)
    return one


def trajectory(algorithm: Algorithm, dataset: Dataset, rounds: int, **how: object) -> Tensor:
    """x_1 … x_T as rows."""
    points: list[Tensor] = []

    def note(run: Run, record: dict[str, object]) -> None:
        if record["round"] != -1:
            points.append(run.state.x.clone())

    simulate(algorithm, dataset, rounds, listen=note, **how)  # type: ignore[arg-type]
    return torch.stack(points)
