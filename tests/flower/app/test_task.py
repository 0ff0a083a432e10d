"""Tasks: the user's own, and the one made from a config."""

import sys
from pathlib import Path

import pytest
import torch
from flower_support import config
from torch import nn

from fedamd.errors import FedamdError
from fedamd.flower.app.settings import read_settings
from fedamd.flower.app.task import FederatedTask, from_config, load_task
from fedamd.flower.local.inprocess import run_in_process
from fedamd.flower.local.launch import read_app
from fedamd.oracles.objective import flat_parameters
from fedamd.runs.config import load_config
from fedamd.runs.experiment import build_experiment
from fedamd.runs.folder import Folder

EXAMPLE = Path(__file__).parents[3] / "examples" / "flower_digits"


def task(samples: int = 2, targets: int = 2) -> FederatedTask:
    return FederatedTask(
        lambda: nn.Linear(3, 2), lambda client: (torch.full((samples, 3), float(client)), torch.zeros(targets))
    )


def test_a_client_has_its_own_samples_and_no_others() -> None:
    data = task().client_dataset(load_config({"dtype": "float64"}), 3, "cpu")
    assert data.inputs.tolist() == [[3, 3, 3], [3, 3, 3]]
    assert data.inputs.dtype == torch.float64
    assert len(data.test_inputs) == 0


@pytest.mark.parametrize(("samples", "targets"), [(0, 0), (2, 1)])
def test_data_that_makes_no_sense_is_a_sentence(samples: int, targets: int) -> None:
    with pytest.raises(FedamdError, match=r"local_data\(1\)"):
        task(samples, targets).client_dataset(load_config(), 1, "cpu")


def test_the_initial_model_is_a_function_of_the_seed_alone() -> None:
    a, b, c = (flat_parameters(task().build_model(load_config({"seed": seed}), "cpu")) for seed in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_a_model_with_hidden_state_is_refused() -> None:
    with pytest.raises(FedamdError, match="BatchNorm"):
        FederatedTask(lambda: nn.BatchNorm1d(3), lambda _: (torch.ones(1, 3),) * 2).build_model(load_config(), "cpu")


def test_the_task_of_a_config_gives_every_client_its_part_and_the_same_start() -> None:
    settled = load_config(config())
    made, experiment = from_config(settled), build_experiment(settled)
    for client in range(4):
        expected = experiment.dataset.inputs[experiment.clients.samples(client)]
        assert torch.equal(made.client_dataset(settled, client, "cpu").inputs, expected)
    assert torch.equal(flat_parameters(made.build_model(settled, "cpu")), experiment.x0)
    assert torch.equal(made.server_dataset(settled).test_inputs, experiment.dataset.test_inputs)


def test_what_is_no_task_is_refused() -> None:
    settled, settings = read_settings({"federation.task": "builtins:str"})
    with pytest.raises(FedamdError, match="not a FederatedTask"):
        load_task(settled, settings)


@pytest.mark.slow
def test_the_example_learns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """To the end of its rounds: with a larger step it would be at a third by then."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    run_in_process(EXAMPLE, read_app(EXAMPLE) | {"federation.folder": str(tmp_path / "run")})
    records = Folder.open(tmp_path / "run").metrics()
    assert len(records) == 21
    assert records[-1].metrics["accuracy"] > 0.7


def test_the_task_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.delitem(sys.modules, "task", raising=False)
    settled, settings = read_settings(read_app(EXAMPLE))
    made = load_task(settled, settings)
    sizes = [len(made.client_dataset(settled, client, "cpu").inputs) for client in range(settled.clients)]
    assert sizes == [375] * 4
    assert len(made.server_dataset(settled).test_inputs) == 297
