"""`verify`: a folder as it was written is fine; whatever has changed in it is told, with what can be saved."""

import sys

import pytest
from typer.testing import CliRunner

import fedamd
from fedamd.cli.main import app
from fedamd.runs.verify import verify

CONFIG = {
    "data": {"name": "quadratic", "dimension": 4, "samples": 3},
    "clients": 5,
    "cohort": 2,
    "rounds": 6,
    "checkpoint_every": 2,
    "client_store": "disk",
    "algorithm": {"cache": "client"},
}


@pytest.fixture
def run(tmp_path):
    fedamd.run(CONFIG, out=tmp_path / "run")
    return tmp_path / "run"


def test_a_folder_as_it_was_written(run):
    verdict = verify(run)
    assert verdict.wrong == []
    assert verdict.checkpoints == [6, 4]
    assert verdict.advice == "all is as it was written"


@pytest.mark.parametrize(
    ("name", "says", "advice"),
    [
        ("config.toml", "config.toml is not as it was written", "what can be saved: environment.json, metrics.jsonl"),
        ("environment.json", "environment.json is ", "what can be saved: "),  # no JSON, or not what was written
        ("metrics.jsonl", "metrics.jsonl, line", "what can be saved: "),
        ("checkpoint.safetensors", "checkpoint.safetensors cannot be read", "it continues from t = 4"),
        ("checkpoint.previous.safetensors", "cannot be read", "it continues from t = 6"),
        ("model.safetensors", "model.safetensors cannot be read", "it continues from t = 6"),
        ("summary.json", "summary.json is ", "it continues from t = 6"),
        ("held.sqlite", "held.sqlite", "what can be saved: environment.json, config.toml, metrics.jsonl"),
    ],
)
def test_what_is_damaged_is_named(run, name, says, advice):
    content = bytearray((run / name).read_bytes())
    content[len(content) // 4 : len(content) // 2] = b"?" * (len(content) // 2 - len(content) // 4)
    (run / name).write_bytes(content)
    verdict = verify(run)
    assert any(says in sentence for sentence in verdict.wrong)
    assert verdict.advice.startswith(advice)


def test_the_command(run):
    told = CliRunner().invoke(app, ["verify", str(run)])
    assert (told.exit_code, told.stdout) == (0, f"{run}: all is as it was written\n")
    (run / "summary.json").write_text("{}")
    told = CliRunner().invoke(app, ["verify", str(run.parent)])
    assert told.exit_code == 1
    assert "summary.json is damaged" in told.stderr


def test_looking_runs_nobodys_code(tmp_path, monkeypatch):
    """A folder whose config names a module that leaves a trace when it is imported; going on asks for trust."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "rarely.py").write_text("from pathlib import Path\nPath('trace').touch()\ndef p(t): return 0.5\n")
    fedamd.run(CONFIG | {"algorithm": {"p": "rarely:p"}, "client_store": "memory"}, out=tmp_path / "run", rounds=2)
    (tmp_path / "trace").unlink()
    monkeypatch.delitem(sys.modules, "rarely")
    for command in ("verify", "report", "plot"):
        assert CliRunner().invoke(app, [command, "run"]).exit_code == 0
    assert not (tmp_path / "trace").exists()

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    for words in (["--resume", "run"], ["run/config.toml", "--out", "other"]):
        refused = CliRunner().invoke(app, ["run", *words])
        assert "made elsewhere and names code of its own (rarely:p)" in str(refused.exception)
    assert not (tmp_path / "trace").exists()
    assert CliRunner().invoke(app, ["run", "--resume", "run", "--trust", "--rounds", "3"]).exit_code == 0
    assert (tmp_path / "trace").exists()

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert CliRunner().invoke(app, ["run", "--resume", "run", "--rounds", "4"]).exit_code == 0
