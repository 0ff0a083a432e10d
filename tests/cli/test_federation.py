"""The commands of `fedamd federation`."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

pytest.importorskip("flwr")

from fedamd.cli import federation
from fedamd.errors import FedamdError
from fedamd.flower import processes
from fedamd.runs.records import Folder

CONFIG = """
clients = 3
cohort = 2
rounds = 2

[model]
name = "softmax"

[partition]
name = "iid"

[algorithm]
name = "fedamd"
p = 0.5
steps = 2
cache = "client"

[federation]
deadline = 30
"""
UP = """
import typer
from fedamd.cli import federation
app = typer.Typer()
federation.register(app)
app()
"""


def fedamd(*words: str) -> str:
    """What the command prints; its exception, if it raises one."""
    app = typer.Typer(pretty_exceptions_enable=False)
    federation.register(app)
    result = CliRunner().invoke(app, ["federation", *words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(CONFIG)
    return path


def test_a_run_in_one_process(config: Path, tmp_path: Path) -> None:
    fedamd("run", str(config), "--in-process", "--out", str(tmp_path / "out"), "--set", "rounds=1")
    assert [record["round"] for record in Folder.open(tmp_path / "out").metrics()] == [-1, 0]
    fedamd("run", str(config), "--in-process", "--out", str(tmp_path / "out"))
    assert [record["round"] for record in Folder.open(tmp_path / "out").metrics()] == [-1, 0, 1]


def test_a_run_needs_a_federation(config: Path, tmp_path: Path) -> None:
    with pytest.raises(FedamdError, match="no federation is up"):
        fedamd("run", str(config), "--folder", str(tmp_path / "none"))


def test_settings_are_checked_before_anything_is_started(config: Path) -> None:
    with pytest.raises(FedamdError, match=r"federation\.dedline: unknown key"):
        fedamd("run", str(config), "--local", "--set", "federation.dedline=3")


def test_certificates_for_a_deployment(tmp_path: Path) -> None:
    fedamd("certificates", "--host", "fl.example.org", "--host", "10.0.0.7", "--out", str(tmp_path / "c"))
    assert {file.name for file in (tmp_path / "c").iterdir()} == {"ca.crt", "ca.key", "server.pem", "server.key"}


def test_nothing_to_bring_down(tmp_path: Path) -> None:
    assert "0 processes" in fedamd("down", "--folder", str(tmp_path))


def test_without_flower_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flwr", None)
    with pytest.raises(FedamdError, match=r"fedamd\[flower\]"):
        fedamd("down")


@pytest.mark.slow
@pytest.mark.flower
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_says_how_to_stop_and_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "up"
    command = [sys.executable, "-c", UP, "federation", "up", "--clients", "2", "--folder", str(folder)]
    env = processes.environment(tmp_path, "the test") | {"PYTHONUNBUFFERED": "1"}
    with (tmp_path / "output").open("w") as output:
        process = subprocess.Popen(command, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        end = time.monotonic() + 60
        while "stop" not in (said := (tmp_path / "output").read_text()):
            assert process.poll() is None, said
            assert time.monotonic() < end, said
            time.sleep(0.1)
        assert re.search(r"2 clients and their server on 127\.0\.0\.1:\d+", said)
        mark = (folder / "mark").read_text()
        assert len(processes.marked(mark)) >= 3
        process.send_signal(number)
        assert process.wait(60) == 0
        assert processes.marked(mark) == []
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
