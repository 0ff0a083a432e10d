"""Metrics of one's own choice, and every client's own tests."""

import json
from pathlib import Path

import pytest
import torch

import fedamd
from fedamd.data.base import ClientTests, Dataset, Partition
from fedamd.errors import FedamdError
from fedamd.oracles.objective import Objective
from fedamd.runs.client_scores import ClientScores
from fedamd.runs.config import load_config
from fedamd.runs.evaluation import Evaluation, hold_out, spread
from fedamd.runs.experiment import build_experiment


def test_the_spread_over_clients() -> None:
    """0.1 … 2.0 in steps of 0.1: the worst tenth are two values; variance (20² − 1)/12·0.01."""
    values = [number / 10 for number in range(1, 21)]
    found = spread(values, higher_is_better=True)
    assert (found["min"], found["max"], found["median"]) == (0.1, 2.0, pytest.approx(1.05))
    assert found["worst_decile"] == pytest.approx(0.15)
    assert found["variance"] == pytest.approx(399 / 12 * 0.01)
    assert found["p10"] == pytest.approx(0.29)  # position 0.1·19 = 1.9 between 0.2 and 0.3
    assert spread(values, higher_is_better=False)["worst_decile"] == pytest.approx(1.95)


def test_clients_without_a_number_do_not_count() -> None:
    found = spread([float("nan"), 0.5], higher_is_better=True)
    assert (found["min"], found["values"]) == (0.5, [None, 0.5])


def numbers(count: int) -> Dataset:
    inputs = torch.arange(float(count)).unsqueeze(-1)
    return Dataset("numbers", inputs, inputs[:, 0], inputs, inputs[:, 0], classes=0)


def test_held_out_samples_leave_the_training_data() -> None:
    data = numbers(12)
    clients = Partition.of([[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11]])
    train, tests = hold_out(data, clients, 0.25, seed=3)
    assert train.sizes == (6, 3)
    assert tests.owners.tolist() == [0, 0, 1]
    everything = [*train.samples(0).tolist(), *train.samples(1).tolist(), *tests.inputs[:, 0].long().tolist()]
    assert sorted(everything) == list(range(12))


def test_a_client_keeps_a_sample_to_train_on_and_nothing_to_test_is_refused() -> None:
    train, tests = hold_out(numbers(3), Partition.of([[0, 1], [2]]), 0.9, seed=0)
    assert train.sizes == (1, 1)
    assert tests.owners.tolist() == [0]
    with pytest.raises(FedamdError, match=r"test_share = 0\.1 leaves no client a test sample"):
        hold_out(numbers(3), Partition.of([[0, 1], [2]]), 0.1, seed=0)


@pytest.mark.parametrize("lacking", [(), (2,)])
def test_native_code_scores_clients_as_the_forward_pass_does(lacking: tuple[int, ...]) -> None:
    """Five clients with about 40 tests each, and samples of nobody; client 2 may have none."""
    config = load_config({"data": {"name": "digits"}, "clients": 5, "cohort": 2, "model": {"name": "mlp", "hidden": 7}})
    experiment = build_experiment(config)
    owners = torch.arange(280).remainder(7).sub(2).clamp_min(-1)
    for client in lacking:
        owners[owners == client] = -1
    data = experiment.dataset
    tests = ClientTests(data.inputs[:280], data.targets[:280], owners)
    objective = Objective(experiment.model, data.classes)
    native, plain = (Evaluation(objective, data, [], tests, native=native) for native in (True, False))
    if ClientScores.made(objective.model, data, tests) is None:
        pytest.skip("there is no native library")
    found, expected = native.on_clients(experiment.x0), plain.on_clients(experiment.x0)
    assert found.keys() == expected.keys() == {"loss", "accuracy"}
    for name in found:
        for value, wanted in zip(found[name]["values"], expected[name]["values"], strict=True):
            assert value == (None if wanted is None else pytest.approx(wanted, rel=1e-4))
    assert [value is None for value in found["loss"]["values"]] == [client in lacking for client in range(5)]


class Line(torch.nn.Module):
    """y = w·x, from w = 1."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs * self.w


def test_every_client_is_measured_on_its_own_tests(tmp_path: Path) -> None:
    """At w = 1 client 0's tests (1, 1), (2, 4) have errors 0 and 2, client 1's (3, 0) has 3: mse 2 and 9."""
    inputs = torch.tensor([[1.0], [2.0], [3.0]])
    tests = ClientTests(inputs, torch.tensor([1.0, 4.0, 0.0]), torch.tensor([0, 0, 1]))
    data = Dataset(
        "own",
        inputs,
        inputs[:, 0],
        inputs,
        inputs[:, 0],
        classes=0,
        clients=Partition.of([[0, 1], [2]]),
        client_tests=tests,
    )
    end = fedamd.run(
        dataset=data,
        model=Line(),
        algorithm={"name": "fedavg", "steps": 1},
        rounds=3,
        metrics=["mse", "mae"],
        evaluate_clients_every=2,
        out=tmp_path / "run",
    )
    start, first, second, third = end.metrics
    assert start.clients["mse"]["values"] == [2.0, 9.0]
    assert start.clients["mse"]["worst_decile"] == 9.0
    assert start.clients["loss"]["values"] == [1.0, 4.5]
    assert start.metrics["mse"] == 0.0
    assert [bool(record.clients) for record in (first, second, third)] == [False, True, True]
    assert end.summary["clients"]["mse"]["max"] == pytest.approx(9.0)
    assert "final_mae" in end.summary
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert "clients" not in lines[1]


def test_clients_cannot_be_tested_on_nothing() -> None:
    with pytest.raises(FedamdError, match="evaluate_clients_every needs test samples that belong to clients"):
        fedamd.run(evaluate_clients_every=1)


def test_an_unknown_metric_is_named_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(FedamdError, match="metrics: there is no 'f2'; there are accuracy, f1"):
        fedamd.run(metrics=["f2"], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
