"""A user's own method (its roles in another module), model and data: over Flower as in a simulation."""

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fedamd import registry
from fedamd.flower.app.settings import flatten
from fedamd.flower.local.inprocess import run_in_process
from fedamd.flower.local.launch import read_app, run_on, settings_for, up_in, write_app
from fedamd.flower.local.loopback import Loopback
from fedamd.runs.folder import MODEL
from fedamd.runs.model_file import read_vector

ROLES = """
from fedamd.algorithms.base import Reply, role

@role("stroller")
def stroll(task, batches, grad):
    x = task.x
    for batch in batches:
        x = x - task.eta * grad(x, batch)
    return Reply(step=task.x - x)
"""
METHOD = """
from dataclasses import dataclass
from fedamd.algorithms.base import Algorithm, Batches, Exchange, Order, State, mean
from own_roles import stroll

@dataclass(frozen=True, kw_only=True)
class Stroll(Algorithm):
    eta: float = 0.1

    def round(self, state, turn):
        order = Order(stroll, turn.cohort, (Batches(2, 16),), {"x": state.x, "eta": self.eta})
        answers = yield Exchange(order)
        return State(x=state.x - mean(answers["stroller"].values["step"]))
"""
MODEL_AND_DATA = """
import torch
from torch import nn
from fedamd import Dataset

class Net(nn.Sequential):
    def __init__(self, hidden):
        super().__init__(nn.Linear(5, hidden), nn.Tanh(), nn.Linear(hidden, 3))

def load(samples):
    inputs = torch.randn(samples, 5, generator=torch.Generator().manual_seed(0))
    return Dataset.of(inputs[20:], inputs[20:].argmax(1) % 3, test=(inputs[:20], inputs[:20].argmax(1) % 3))
"""
CONFIG = """
clients = 2
cohort = 2
rounds = 2
[algorithm]
name = "own_method:Stroll"
eta = 0.2
[model]
name = "own_parts:Net"
hidden = 4
[data]
name = "own_parts:load"
samples = 80
[partition]
name = "iid"
"""


FILES = {"own_roles.py": ROLES, "own_method.py": METHOD, "own_parts.py": MODEL_AND_DATA, "own.toml": CONFIG}


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A config with the user's modules beside it."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    monkeypatch.setattr(registry, "_folders", list(registry._folders))
    before = list(sys.path)
    yield folder / "own.toml"
    sys.path[:] = before
    for module in ("own_roles", "own_method", "own_parts"):
        sys.modules.pop(module, None)


def model(folder: Path) -> torch.Tensor:
    return read_vector(folder / MODEL)


def test_modules_beside_the_file_travel_with_the_run(source: Path, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    write_app(source, read_app(source), tmp_path / "app")
    assert {path.name for path in (tmp_path / "app").iterdir()} == {*FILES, "pyproject.toml"} - {"own.toml"}
    (tmp_path / "other").mkdir()
    write_app(source, flatten(tomllib.loads("rounds = 3")), tmp_path / "other")
    assert {path.name for path in (tmp_path / "other").iterdir()} == {"pyproject.toml"}, "nothing else does"


def test_in_process(source: Path, tmp_path: Path) -> None:
    import fedamd

    run_in_process(source, read_app(source) | {"federation.folder": str(tmp_path / "run")})
    result = fedamd.run(str(source), engine="loop")
    torch.testing.assert_close(model(tmp_path / "run"), result.x, atol=1e-6, rtol=0)


@pytest.mark.flower
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_on_real_nodes(source: Path, tmp_path: Path) -> None:
    settings = read_app(source)
    run_in_process(source, settings | {"federation.folder": str(tmp_path / "run")})
    with Loopback(tmp_path / "up", 2) as up:
        own = settings_for(up.folder, settings | {"federation.folder": str(tmp_path / "real")})
        assert run_on(up_in(up.folder), source, own) == "finished:completed"
    torch.testing.assert_close(model(tmp_path / "real"), model(tmp_path / "run"), atol=1e-6, rtol=0)


def test_a_federation_is_stopped_as_a_simulation_is(source: Path, tmp_path: Path) -> None:
    """Two clients use 2·2·16 gradient samples a round: a budget of 100 is used up after the second of five."""
    changes = {"rounds": 5, "stop.max_gradients": 100.0, "federation.folder": str(tmp_path / "run")}
    run_in_process(source, read_app(source) | changes)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["status"], summary["rounds"]) == ("stopped", 2)
    assert "gradient samples is used up" in summary["stopped"]
