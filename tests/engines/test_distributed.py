"""Many processes train as one does: real ranks on this machine, over gloo."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import fedamd
from fedamd.algorithms import ALGORITHMS
from fedamd.algorithms.base import Batches
from fedamd.algorithms.fedamd import aim, aim_and_keep
from fedamd.engines.distributed import Ranks
from fedamd.runs import checkpoint
from support import torchrun

SMALL = {
    "clients": 9,
    "cohort": 5,
    "rounds": 6,
    "failure_rate": 0.1,
    "checkpoint_every": 2,
    "dtype": "float64",
    "oracle": "autograd",
    "model": {"name": "mlp", "hidden": 6},
}
METHODS: dict[str, dict[str, Any]] = {
    "server-held": {"name": "fedamd", "p": 0.5, "steps": 2, "small_batch": 8},
    "client-held": {"name": "fedamd", "p": 0.5, "steps": 2, "small_batch": 8, "cache": "client", "start_up": "lazy"},
    "scaffold": {"name": "scaffold", "steps": 2, "small_batch": 8},
    "compressed": {"name": "vr-marina", "compressor": "quantise"},
    "diverging": {"name": "fedavg", "steps": 2, "eta_l": 1e200},
}


def left(folder: Path) -> tuple[list[Any], dict[str, Any], bytes]:
    """Metrics and summary without the times, and the bytes of the model."""
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((folder / "summary.json").read_text())
    for record in (*metrics, summary):
        del record["seconds"], record["check"]
    return metrics, summary, (folder / "model.safetensors").read_bytes()


def held(folder: Path) -> dict[int, dict[str, list[float]]]:
    """What each client holds in the checkpoint."""
    tensors, _ = checkpoint.load(folder / "checkpoint.safetensors")
    stacks = {name: stack.tolist() for name, stack in tensors.items() if name.startswith("held.")}
    clients = stacks.pop("held.clients")
    return {client: {name: stack[row] for name, stack in stacks.items()} for row, client in enumerate(clients)}


# --- one process ---


def test_every_client_lives_on_one_rank():
    owners = [[rank for rank in range(3) if Ranks(rank, 3).owns(client)] for client in range(7)]
    assert owners == [[0], [1], [2], [0], [1], [2], [0]]
    assert all(Ranks().owns(client) for client in range(7))


def test_work_is_dealt_out_evenly_but_for_clients_that_remember():
    order, kept = aim.to((6, 3, 0, 9), Batches(1, "full")), aim_and_keep.to((6, 3, 0, 8), Batches(1, "full"))
    assert [Ranks(rank, 3).share(order) for rank in range(3)] == [(6, 9), (3,), (0,)]
    assert [Ranks(rank, 3).share(kept) for rank in range(3)] == [(6, 3, 0), (), (8,)]


def test_without_torchrun_it_is_a_run_like_any_other(tmp_path):
    config = SMALL | {"data": {"name": "quadratic"}, "model": {"name": "quadratic"}}
    fedamd.run(config, out=tmp_path / "plain")
    fedamd.run(config, out=tmp_path / "alone", engine="distributed")
    assert left(tmp_path / "alone") == left(tmp_path / "plain")


# --- several processes ---

SCRIPT = """
import json, os, sys, time
from datetime import timedelta
from pathlib import Path
import fedamd
from fedamd.engines import distributed
from fedamd.errors import FedamdError
from fedamd.torchrun import ProcessLost

distributed.PATIENCE = timedelta(seconds=10)
folder, rank = Path(sys.argv[1]), os.environ["RANK"]
small, methods, every = json.loads(sys.argv[2])
distributed.join("cpu")
for length in (0, 4086, 4087, 20_000):  # with its quotes, the second is the longest that travels in one piece
    assert distributed._gather_json("x" * length * int(rank)) == ["", "x" * length]
for name, algorithm in methods.items():
    result = fedamd.run(small, out=folder / name, algorithm=algorithm)
    (folder / f"{name}.{rank}").write_bytes(result.x.numpy().tobytes())
for name in every:
    (folder / f"every-{name}.{rank}").write_bytes(fedamd.run(small, rounds=2, algorithm=name).x.numpy().tobytes())
try:
    fedamd.run(small, out=folder / "disk", client_store="disk")
except FedamdError as error:
    (folder / f"disk.{rank}").write_text(str(error))
try:  # the folder is taken: rank 0 alone can see that
    fedamd.run(small, out=folder / "scaffold")
except FedamdError as error:
    (folder / f"taken.{rank}").write_text(str(error))
if rank == "1":  # a machine that hangs
    while not (folder / "waited.0").exists():
        time.sleep(0.1)
    os._exit(0)
try:
    fedamd.run(small, out=folder / "hanging")
except ProcessLost as error:
    (folder / "waited.0").write_text(str(error))
os._exit(0)
"""


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path):
    """Exactly: every client's work is the same wherever it is done, and the server adds it up in the same order."""
    (tmp_path / "script.py").write_text(SCRIPT)
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    job = torchrun(2, str(tmp_path / "script.py"), str(ranks), json.dumps([SMALL, METHODS, list(ALGORITHMS)]))
    for name, algorithm in METHODS.items():
        fedamd.run(SMALL, out=tmp_path / name, algorithm=algorithm)
    alone = {name: fedamd.run(SMALL, rounds=2, algorithm=name).x.numpy().tobytes() for name in ALGORITHMS}
    _, errors = job.communicate(timeout=200)
    assert job.returncode == 0, errors
    for name in METHODS:
        assert left(ranks / name) == left(tmp_path / name), name
        assert held(ranks / name) == held(tmp_path / name), name
        assert (ranks / f"{name}.0").read_bytes() == (ranks / f"{name}.1").read_bytes()
    for name, x in alone.items():
        assert all((ranks / f"every-{name}.{rank}").read_bytes() == x for rank in "01"), name
    assert json.loads((ranks / "diverging" / "summary.json").read_text())["status"] == "diverged"
    assert len(held(ranks / "client-held")) > 2

    for rank in "01":
        assert 'client_store = "disk" is for one process' in (ranks / f"disk.{rank}").read_text()
        assert "scaffold is not empty" in (ranks / f"taken.{rank}").read_text()
    assert not (ranks / "disk").exists()
    assert "another process of this run was lost" in (ranks / "waited.0").read_text()


LONG = SMALL | {
    "rounds": 150,
    "evaluate_every": 9,
    "checkpoint_every": 7,
    "data": {"name": "quadratic", "samples": 4, "dimension": 5},
    "model": {"name": "quadratic"},
    "algorithm": METHODS["client-held"] | {"eta_l": 0.01},
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The long run, never interrupted."""
    folder = fedamd.run(LONG, out=tmp_path_factory.mktemp("long") / "whole").folder
    assert folder is not None
    return folder


def rank_of(pid: Path, parent: int) -> str | None:
    """The RANK of a process that `parent` started."""
    try:
        if int((pid / "stat").read_text().rpartition(")")[2].split()[1]) != parent:
            return None
        words = dict(word.partition("=")[::2] for word in (pid / "environ").read_text().split("\0"))
    except (OSError, ValueError):  # it has ended
        return None
    return words.get("RANK")


def kill_rank(job: subprocess.Popen[str], rank: int) -> None:
    (pid,) = (int(pid.name) for pid in Path("/proc").glob("[0-9]*") if rank_of(pid, job.pid) == str(rank))
    os.kill(pid, signal.SIGKILL)


def wait_for_lines(folder: Path, count: int, job: subprocess.Popen[str]) -> None:
    metrics = folder / "metrics.jsonl"
    while job.poll() is None and not (metrics.exists() and metrics.read_bytes().count(b"\n") >= count):
        time.sleep(0.005)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the process of a rank in /proc")
@pytest.mark.parametrize(("lost", "processes"), [(1, 3), (0, 1)])
def test_a_lost_rank_ends_the_run_and_any_number_go_on(lost, processes, whole, tmp_path):
    folder = tmp_path / "run"
    job = torchrun(2, "-m", "fedamd", "run", str(whole / "config.toml"), "--out", str(folder))
    wait_for_lines(folder, 40, job)
    kill_rank(job, lost)
    _, errors = job.communicate(timeout=100)
    assert job.returncode != 0
    assert "error: another process of this run was lost: the run ends here" in errors
    _, facts = checkpoint.load(folder / "checkpoint.safetensors")
    assert 30 < facts["t"] < 150
    assert not (folder / "summary.json").exists()

    if processes == 1:
        fedamd.resume(folder)
    else:
        job = torchrun(processes, "-m", "fedamd", "run", "--resume", str(folder))
        told, errors = job.communicate(timeout=100)
        assert job.returncode == 0, errors
        assert told.count("round  150/150") == told.count("records in") == 1
    assert left(folder) == left(whole)


@pytest.mark.slow
def test_the_signal_to_stop_is_obeyed_by_all_after_the_same_round(whole, tmp_path):
    folder = tmp_path / "run"
    job = torchrun(2, "-m", "fedamd", "run", str(whole / "config.toml"), "--out", str(folder))
    wait_for_lines(folder, 40, job)
    job.send_signal(signal.SIGTERM)
    told, errors = job.communicate(timeout=100)
    assert "continue with: fedamd run --resume" in told, errors
    assert "was lost" not in errors
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == summary["rounds"] + 1
    shutil.copytree(folder, tmp_path / "copy")
    fedamd.resume(folder)
    assert left(folder) == left(whole)
