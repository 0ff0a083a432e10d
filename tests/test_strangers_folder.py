"""A stranger's folder: a method, model, data set, partitioner and metric of one's own, in every way to run them.

The package knows none of them. The same run comes out from a TOML file, a comparison, a sweep, several processes and a
federation, and what is recorded names what was run.
"""

import json
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fedamd import load_config, load_model, registry
from fedamd.cli.main import app
from fedamd.flower.local.inprocess import run_in_process
from fedamd.flower.local.launch import read_app
from fedamd.report.curves import draw_curves
from fedamd.report.stored import read_runs
from fedamd.runs.folder import MODEL
from fedamd.runs.model_file import read_vector
from support import torchrun

METHOD = '''
"""A method with two roles: scouts tell the steepest direction, hikers walk with it."""

from dataclasses import dataclass

from fedamd import Algorithm, Batches, Exchange, Reply, State, mean, role


@role("scout", reports_loss=False)
def look(task, batches, grad):
    return Reply(direction=grad(task.x, batches[0]))


@role("hiker", memory=("drift",))
def hike(task, batches, grad):
    y = task.x
    for batch in batches:
        y = y - task.rate * (0.9 * grad(y, batch) + 0.1 * task.direction + 0.05 * task.memory.drift)
    return Reply(delta=task.x - y, memory={"drift": task.x - y})


@dataclass(frozen=True, kw_only=True)
class Hike(Algorithm):
    """Hikers and their scout."""

    rate: float = 0.05
    steps: int = 2

    def round(self, state, turn):
        scout = turn.choose(turn.cohort)
        seen = yield Exchange(look.to((scout,), Batches(1, "full"), x=state.x))
        if not len(seen["scout"]):
            return state
        replies = yield Exchange(
            hike.to(
                turn.cohort, Batches(self.steps, 4), x=state.x, direction=seen["scout"].direction[0], rate=self.rate
            )
        )
        return State(x=state.x - mean(replies["hiker"].delta))
'''
SURROUNDINGS = '''
"""Where it hikes: a data set, who owns what of it, a model and a metric."""

import torch
from torch import nn

from fedamd import Dataset


def valleys(seed, samples=60):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(samples, 4, generator=generator)
    targets = (inputs[:, 0] * inputs[:, 1] > 0).long()
    return Dataset("valleys", inputs[20:], targets[20:], inputs[:20], targets[:20], classes=2)


def uneven(dataset, clients, seed, most=3):
    """Client m has one sample more than client m − 1, up to `most` more."""
    sizes = [5 + min(m, most) for m in range(clients)]
    return [list(range(sum(sizes[:m]), sum(sizes[: m + 1]))) for m in range(clients)]


class Bent(nn.Module):
    def __init__(self, dataset, width=3):
        super().__init__()
        self.inner = nn.Linear(dataset.inputs.shape[1], width)
        self.outer = nn.Linear(width, dataset.classes)

    def forward(self, inputs):
        return self.outer(torch.sin(self.inner(inputs)))


def margin(outputs, targets):
    right = outputs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return (right - outputs.sum(-1) + right).mean()
'''
CONFIG = """
clients = 5
cohort = 3
rounds = 4
seed = 7
dtype = "float64"
metrics = ["surroundings_{n}:margin"]
[data]
name = "surroundings_{n}:valleys"
[partition]
name = "surroundings_{n}:uneven"
most = 2
[model]
name = "surroundings_{n}:Bent"
width = 4
[algorithm]
name = "hiking_{n}:Hike"
rate = 0.2
"""
ROLES = {"scout": 1, "hiker": 3}


class Stranger:
    """The folder, and the names in it."""

    def __init__(self, folder: Path, number: str) -> None:
        self.folder = folder
        self.config = folder / "own.toml"
        self.method = f"hiking_{number}:Hike"
        self.names = {
            "algorithm": self.method,
            "data": f"surroundings_{number}:valleys",
            "partition": f"surroundings_{number}:uneven",
            "model": f"surroundings_{number}:Bent",
        }
        folder.mkdir()
        (folder / f"hiking_{number}.py").write_text(METHOD)
        (folder / f"surroundings_{number}.py").write_text(SURROUNDINGS)
        self.config.write_text(CONFIG.format(n=number))


@pytest.fixture
def stranger(tmp_path, monkeypatch, request):
    """A folder that is not the current one; what it makes importable is gone after the test."""
    monkeypatch.setattr(registry, "_folders", list(registry._folders))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return Stranger(tmp_path / "mine", str(abs(hash(request.node.name))))


def told(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def vector(folder: Path) -> torch.Tensor:
    return read_vector(folder / MODEL)


def check_records(stranger: Stranger, folder: Path) -> None:
    """What a run's folder says is what was run."""
    written = load_config(folder / "config.toml", stored=True).plain()
    assert {section: written[section]["name"] for section in stranger.names} == stranger.names
    assert (written["algorithm"]["rate"], written["partition"]["most"], written["model"]["width"]) == (0.2, 2, 4)
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [record["roles"] for record in records if record["round"] >= 0] == [ROLES] * 4
    assert all(isinstance(record["metrics"]["margin"], float) for record in records)


@pytest.fixture
def reference(stranger, tmp_path):
    """The run from its TOML file on the reference engine."""
    told("run", stranger.config, "--engine", "loop", "--out", tmp_path / "reference")
    return vector(tmp_path / "reference")


def test_from_toml_on_every_engine_and_resumed(stranger, reference, tmp_path):
    check_records(stranger, tmp_path / "reference")
    told("run", stranger.config, "--engine", "vector", "--out", tmp_path / "vector")
    check_records(stranger, tmp_path / "vector")
    torch.testing.assert_close(vector(tmp_path / "vector"), reference)
    told("run", stranger.config, "--engine", "loop", "--rounds", 2, "--out", tmp_path / "halves")
    told("run", "--resume", tmp_path / "halves", "--rounds", 4)
    assert torch.equal(vector(tmp_path / "halves"), reference)
    check_records(stranger, tmp_path / "halves")
    model = load_model(tmp_path / "reference")
    assert type(model).__name__ == "Bent"
    assert torch.equal(torch.cat([p.detach().flatten() for p in model.parameters()]), reference)


def test_compared_with_others(stranger, reference, tmp_path):
    shown = told(
        *("compare", stranger.config, "--algorithms", f"{stranger.method},fedavg", "--set", "engine=loop"),
        *("--out", tmp_path / "compared", "--json"),
    )
    rows = json.loads(shown)["methods"]
    assert [row["method"] for row in rows] == [stranger.method, "fedavg"]
    folder = tmp_path / "compared" / rows[0]["folder"]
    assert torch.equal(vector(folder), reference)
    check_records(stranger, folder)


def test_swept(stranger, reference, tmp_path):
    shown = told("sweep", stranger.config, "--grid", "algorithm.rate=0.1,0.2", "--out", tmp_path / "swept", "--json")
    points = json.loads(shown)["points"]
    assert [(point["algorithm.rate"], point["status"]) for point in points] == [(0.1, "finished"), (0.2, "finished")]
    torch.testing.assert_close(vector(tmp_path / "swept" / "runs" / "rate=0.2"), reference)
    check_records(stranger, tmp_path / "swept" / "runs" / "rate=0.2")


def test_reported_under_its_own_name(stranger, reference, tmp_path):
    told("run", stranger.config, "--set", "algorithm.name=fedavg", "--out", tmp_path / "other")
    curves = draw_curves(read_runs([tmp_path / "reference", tmp_path / "other"]))
    assert [curve.label for curve in curves] == [stranger.method, "fedavg"]
    told("report", tmp_path / "reference", "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert stranger.method in page
    assert "valleys" in page
    assert len(reference)


def test_in_a_federation(stranger, reference, tmp_path):
    run_in_process(stranger.config, read_app(stranger.config) | {"federation.folder": str(tmp_path / "federated")})
    torch.testing.assert_close(vector(tmp_path / "federated"), reference)
    execution = json.loads((tmp_path / "federated" / "environment.json").read_text())["execution"]
    assert (execution["engine"], execution["clients_engine"]) == ("flower", "loop")
    assert execution["oracle"] == "the fastest that each client has"
    check_records(stranger, tmp_path / "federated")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_in_two_processes(stranger, reference, tmp_path):
    words = ("-m", "fedamd", "run", str(stranger.config), "--engine", "loop", "--out", str(tmp_path / "two"))
    process = torchrun(2, *words)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert torch.equal(vector(tmp_path / "two"), reference)
    check_records(stranger, tmp_path / "two")
