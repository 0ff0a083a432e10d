"""What a reported run tells beside its curve, by hand."""

from dataclasses import replace

import pytest
import torch

import fedamd
from fedamd.data.base import Dataset, Partition
from fedamd.runs.clients_file import samples_by_class
from fedamd.runs.config import load_config
from fedamd.runs.experiment import Experiment, build_experiment
from fedamd.runs.run import Run
from fedamd.studies.leaderboard.details import details, memory, worst_decile


@pytest.fixture
def experiment() -> Experiment:
    """Three clients with the classes 0 0 0 1, 1 1 and 2; a linear model without bias whose inputs are its outputs."""
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 2])
    tests = torch.tensor([0, 0, 1, 1, 2])
    outputs = torch.eye(3)[torch.tensor([0, 1, 1, 1, 0])]  # right: half of class 0, all of class 1, none of class 2
    clients = Partition.of([torch.tensor([0, 1, 2, 3]), torch.tensor([4, 5]), torch.tensor([6])])
    dataset = Dataset("own", torch.eye(3)[labels], labels, outputs, tests, 3, clients)
    model = torch.nn.Linear(3, 3, bias=False)
    model.weight.data = torch.eye(3)
    config = load_config({"clients": 3, "cohort": 1, "rounds": 1, "devices": {}})
    return build_experiment(config, dataset=dataset, model=model, algorithm=fedamd.FedAvg(eta_l=0.1))


def test_the_worst_off_by_their_classes(experiment: Experiment) -> None:
    """Client 0: 3/4 · 1/2 + 1/4 · 1; client 1: 1; client 2: 0, and a tenth of three clients is one of them."""
    counts = samples_by_class(experiment.dataset, experiment.clients, range(3))
    assert counts.tolist() == [[3, 1, 0], [0, 2, 0], [0, 0, 1]]
    assert experiment.evaluation.by_class(experiment.x0) == [0.5, 1.0, 0.0]
    run = Run(experiment)
    assert worst_decile(run) == 0.0
    run.state = run.state.next(
        x=torch.tensor([0.0, 0, 0, 0, 1, 0, 1, 0, 0])
    )  # input 0 stands for class 2: all of it right
    assert worst_decile(run) == 0.25, "client 0: 3/4 · 0 + 1/4 · 1"
    run.state = run.state.next(x=torch.full((9,), torch.nan))
    assert worst_decile(run) is None


def test_memory_is_counted_in_models(experiment: Experiment) -> None:
    """The server keeps x and a table of three vectors; a client keeps two, if it keeps any."""
    run = Run(experiment)
    assert memory(run) == [1, 0]
    run.state = run.state.next(table=torch.zeros(3, 9))
    run.site.store.write([1], {"a": torch.zeros(1, 9), "b": torch.zeros(1, 9)})
    assert memory(run) == [4, 2]


def test_seconds_until_each_evaluation(experiment: Experiment) -> None:
    """None before the first; and not a word where clients have no devices."""
    run = Run(experiment)
    assert details(run)["seconds"] == []
    untimed = replace(experiment, config=load_config({"clients": 3, "cohort": 1, "rounds": 1}))
    assert "seconds" not in details(Run(untimed))
