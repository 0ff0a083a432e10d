"""`fedamd new`: what it makes runs as it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedamd.cli.main import app
from fedamd.errors import FedamdError
from support import PYTHONPATH


def in_project(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": PYTHONPATH},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_project_trains_compares_and_passes_its_own_tests(tmp_path: Path) -> None:
    project = tmp_path / "mine"
    told = CliRunner().invoke(app, ["new", str(project)])
    assert told.exit_code == 0, told.output
    assert (project / "README.md").read_text().startswith("# mine\n")
    in_project(project, "fedamd", "run", "experiment.toml", "--out", "run")
    assert '"final_accuracy"' in (project / "run" / "summary.json").read_text()
    methods = "own_method:Clipped,fedavg"
    in_project(
        project, "fedamd", "compare", "experiment.toml", "--algorithms", methods, "--rounds", "3", "--out", "two"
    )
    in_project(project, "fedamd", "report", "two")
    assert "2 passed" in in_project(project, "pytest", "-q", "-p", "no:cacheprovider")


@pytest.mark.parametrize("name", ["1st", "a b", "."])
def test_a_name_that_is_none(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(app, ["new", name])
    assert isinstance(refused.exception, FedamdError)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    refused = CliRunner().invoke(app, ["new", str(tmp_path / "mine")])
    assert "exists already" in str(refused.exception)
    assert list((tmp_path / "mine").iterdir()) == []
