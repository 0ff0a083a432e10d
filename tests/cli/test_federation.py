"""The commands of `fedamd federation`."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

pytest.importorskip("flwr")

from fedamd.cli import federation
from fedamd.errors import FedamdError
from fedamd.flower.local import mark as marks
from fedamd.flower.local import processes
from fedamd.runs.folder import Folder

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
    assert [record.round for record in Folder.open(tmp_path / "out").metrics()] == [-1, 0]
    fedamd("run", str(config), "--in-process", "--out", str(tmp_path / "out"))
    assert [record.round for record in Folder.open(tmp_path / "out").metrics()] == [-1, 0, 1]


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


class Command:
    """A command in a process of its own, for signals."""

    def __init__(self, tmp_path: Path, *words: str) -> None:
        env = processes.environment(tmp_path, "the test") | {"PYTHONUNBUFFERED": "1", "TMPDIR": str(tmp_path)}
        self._output = tmp_path / "output"
        with self._output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", UP, "federation", *words],
                env=env,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until(self, done: Callable[[], object]) -> None:
        end = time.monotonic() + 60
        while not done():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < end, self.said()
            time.sleep(0.1)

    def said(self) -> str:
        return self._output.read_text()

    def __enter__(self) -> "Command":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)


def word_of(folder: Path) -> str:
    """What all processes of the federation in this folder carry in their environment."""
    there = marks.read(folder)
    assert there is not None
    return there.word


@pytest.mark.slow
@pytest.mark.flower
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_says_how_to_stop_and_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "up"
    with Command(tmp_path, "up", "--clients", "2", "--folder", str(folder)) as up:
        up.wait_until(lambda: "stop" in up.said())
        assert re.search(r"2 clients and their server on 127\.0\.0\.1:\d+", up.said())
        mark = word_of(folder)
        assert len(processes.marked(mark)) >= 3
        up.process.send_signal(number)
        assert up.process.wait(60) == 0
        assert processes.marked(mark) == []


@pytest.mark.slow
@pytest.mark.flower
@pytest.mark.timeout(300)
def test_a_local_run_goes_on_with_what_its_clients_held(tmp_path: Path, config: Path) -> None:
    out = tmp_path / "out"
    said = fedamd("run", str(config), "--local", "--out", str(out))
    assert said.startswith("starting the SuperLink\nstarting 3 clients\n"), "from the first second on"
    fedamd("run", str(config), "--local", "--out", str(out), "--set", "rounds=4")
    records = Folder.open(out).metrics()
    assert [record.round for record in records] == [-1, 0, 1, 2, 3]
    assert all(record.extras["lost"] == record.extras["renewed"] == record.missing == 0 for record in records)


@pytest.mark.slow
@pytest.mark.flower
def test_a_local_run_that_is_told_to_end_leaves_nothing_behind(tmp_path: Path, config: Path) -> None:
    endless = ["--set", "rounds=100000"]
    with Command(tmp_path, "run", str(config), "--local", "--out", str(tmp_path / "out"), *endless) as run:
        run.wait_until(lambda: list(tmp_path.glob("fedamd-federation-*/logs/client-2.log")))
        (mark,) = (word_of(path.parent) for path in tmp_path.glob("fedamd-federation-*/mark"))
        assert len(processes.marked(mark)) >= 3
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(60) == 128 + signal.SIGTERM
        assert processes.marked(mark) == []
        assert not list(tmp_path.glob("fedamd-federation-*"))
