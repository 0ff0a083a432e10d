"""A run that was stopped, by a crash at any moment, by SIGKILL or by Ctrl-C, goes on as if it had never stopped."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fedamd
from fedamd.engines.disk_store import DiskStore
from fedamd.errors import FedamdError
from fedamd.runs import checkpoint
from fedamd.runs.folder import Folder
from support import PYTHONPATH

CONFIG = {
    "data": {"name": "quadratic", "samples": 4, "dimension": 5},
    "clients": 8,
    "cohort": 3,
    "rounds": 14,
    "failure_rate": 0.1,
    "checkpoint_every": 4,
    "evaluate_every": 3,
    "algorithm": {"steps": 2, "small_batch": 2, "p": 0.4, "server": "momentum"},
}
STORES = {
    "server": {},
    "client": {"algorithm.cache": "client"},
    "disk": {"algorithm.cache": "client", "client_store": "disk"},
}


def left(folder: Path) -> tuple[list, dict, bytes]:
    """Metrics and summary without the times, and the bytes of the model."""
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((folder / "summary.json").read_text())
    for record in (*metrics, summary):
        del record["seconds"], record["check"]  # which is of the time, too
    return metrics, summary, (folder / "model.safetensors").read_bytes()


class Crash(BaseException):
    """Nothing may catch this: the process is gone."""


def crash_at(monkeypatch, call: int) -> None:
    """The process dies before or after its `call`-th write of any kind, whichever that is."""
    calls = 0

    def dying(function):
        def instead(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls == call:
                raise Crash
            result = function(*arguments, **options)
            calls += 1
            if calls == call:
                raise Crash
            return result

        return instead

    for owner, name in (
        (Folder, "add"),
        (checkpoint, "serialised"),
        (checkpoint, "save"),
        (DiskStore, "commit"),
    ):
        monkeypatch.setattr(owner, name, dying(getattr(owner, name)))


@pytest.mark.parametrize("store", STORES)
def test_a_crash_at_any_write_loses_nothing(store, tmp_path, monkeypatch):
    """Crash, resume and crash again at random writes until the run comes through."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    fedamd.run(CONFIG, out=whole, **STORES[store])
    chance = random.Random(store)
    crashes = 0
    while not (broken / "summary.json").exists():
        begun = (broken / "config.toml").exists()
        with monkeypatch.context() as patch:
            crash_at(patch, chance.randint(1, 30))
            try:
                if begun:
                    fedamd.resume(broken)
                else:
                    fedamd.run(CONFIG, out=broken, **STORES[store])
            except Crash:
                crashes += 1
        with (broken / "metrics.jsonl").open("a") as file:
            file.write('{"round": 99, "lo')  # a line cut short by the crash
        if crashes > 200:
            pytest.fail("the run never comes through")
    fedamd.resume(broken)  # a last time, to drop the line cut short
    assert crashes >= 2
    assert left(broken) == left(whole)


def test_going_on_from_every_round(tmp_path):
    """The checkpoint of every single round leads to the same end."""
    fedamd.run(CONFIG, out=tmp_path / "whole", checkpoint_every=1)
    copies = []

    def copy(run, _):
        folder = tmp_path / f"copy{run.t}"
        if not folder.exists():
            shutil.copytree(tmp_path / "again", folder)
            copies.append(folder)

    fedamd.run(CONFIG, out=tmp_path / "again", checkpoint_every=1, listen=copy)
    assert len(copies) == 15
    for folder in copies:
        fedamd.resume(folder)
        assert left(folder) == left(tmp_path / "whole")


def test_resuming_a_finished_run_changes_nothing(tmp_path):
    fedamd.run(CONFIG, out=tmp_path / "run")
    before = left(tmp_path / "run")
    result = fedamd.resume(tmp_path / "run")
    assert left(tmp_path / "run") == before
    assert result.summary["status"] == "finished"
    assert len(result.metrics) == 15


def test_a_run_can_be_extended_and_remembers_that_it_was(tmp_path):
    """9 rounds, extended to 14 and stopped in between, then resumed without a word of 14."""
    whole, short = tmp_path / "whole", tmp_path / "short"
    fedamd.run(CONFIG, out=whole, evaluate_every=1)
    fedamd.run(CONFIG, out=short, evaluate_every=1, rounds=9)

    def crash(run, _):
        if run.t == 12:
            raise Crash

    with pytest.raises(Crash):
        fedamd.resume(short, rounds=14, listen=crash)
    fedamd.resume(short)
    assert left(short) == left(whole)


def test_what_would_change_the_trajectory_is_refused(tmp_path):
    fedamd.run(CONFIG, out=tmp_path / "run")
    before = left(tmp_path / "run")
    with pytest.raises(FedamdError, match=r"seed cannot change in a run that has begun; what can is .*rounds"):
        fedamd.resume(tmp_path / "run", seed=3)
    with pytest.raises(FedamdError, match=r"algorithm\.eta_l cannot change"):
        fedamd.resume(tmp_path / "run", **{"algorithm.eta_l": 1.0})
    with pytest.raises(FedamdError, match="rounds is 5, but 14 rounds are done"):
        fedamd.resume(tmp_path / "run", rounds=5)
    assert left(tmp_path / "run") == before


def test_two_runs_do_not_share_a_folder(tmp_path):
    fedamd.run(CONFIG, out=tmp_path / "run", rounds=1)
    before = left(tmp_path / "run")
    with pytest.raises(FedamdError, match=r"is not empty: choose another --out, or continue .* --resume"):
        fedamd.run(CONFIG, out=tmp_path / "run")
    assert left(tmp_path / "run") == before


# --- real processes ---


def start(*words: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "fedamd", "run", *words],
        env=os.environ | {"PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_lines(folder: Path, count: int, process: subprocess.Popen) -> None:
    """Until the run has written so many lines of metrics, or has ended."""
    metrics = folder / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.read_bytes().count(b"\n") >= count):
        time.sleep(0.002)


@pytest.mark.slow
def test_sigkill_at_random_moments(tmp_path):
    """Client-held gradients on disk, the most that can go wrong; killed twice, then left to end."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    changes = STORES["disk"] | {"rounds": 300, "checkpoint_every": 5}
    fedamd.run(CONFIG, out=whole, **changes)
    (tmp_path / "run.toml").write_text((whole / "config.toml").read_text())
    chance = random.Random(7)
    words = (str(tmp_path / "run.toml"), "--out", str(killed))
    kills = 0
    for lines in (chance.randint(5, 100), chance.randint(120, 250)):
        process = start(*words)
        wait_for_lines(killed, lines, process)
        time.sleep(chance.random() * 0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
        words = ("--resume", str(killed))
    assert kills == 2
    process = start(*words)
    assert process.communicate()[1] == ""
    assert process.returncode == 0
    assert left(killed) == left(whole)


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    folder = tmp_path / "run"
    (tmp_path / "run.toml").write_text('rounds = 1000000\nclients = 8\ncohort = 3\n[data]\nname = "quadratic"\n')
    process = start(str(tmp_path / "run.toml"), "--out", str(folder))
    wait_for_lines(folder, 5, process)
    process.send_signal(signal.SIGINT)
    told, errors = process.communicate()
    assert process.returncode == 130
    assert errors == ""
    assert f"continue with: fedamd run --resume {folder}" in told
    summary = json.loads((folder / "summary.json").read_text())
    done = summary["rounds"]
    assert summary["status"] == "interrupted"
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == done + 1

    result = fedamd.resume(folder, rounds=done + 3)
    config = {"data": {"name": "quadratic"}, "clients": 8, "cohort": 3, "rounds": done + 3}
    fedamd.run(config, out=tmp_path / "whole")
    assert result.summary["status"] == "finished"
    assert left(folder) == left(tmp_path / "whole")
