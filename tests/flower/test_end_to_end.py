"""Real processes: a SuperLink and SuperNodes on 127.0.0.1. A message costs seconds here, so rounds are few.

Everything that can go wrong in a client is tested without processes, in test_engine.py; here it is tested that the
processes are what the in-process federation says they are.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from flower_support import RAW, simulate

from fedamd.flower.app.settings import flatten
from fedamd.flower.local import processes
from fedamd.flower.local.certificates import write_client_key
from fedamd.flower.local.launch import SuperLink, run_on, settings_for, up_in
from fedamd.flower.local.loopback import Loopback
from fedamd.runs import checkpoint
from fedamd.runs.folder import MODEL, SUMMARY, Folder

pytestmark = [pytest.mark.flower, pytest.mark.slow, pytest.mark.timeout(900)]
CLIENTS = 2


def raw_config(algorithm: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return (
        RAW
        | {"clients": CLIENTS, "cohort": CLIENTS, "rounds": 2, "partition": {"name": "iid"}}
        | changes
        | {"algorithm": {"steps": 2, "small_batch": 16} | algorithm}
    )


class Runner:
    """Runs on a federation that is up."""

    def __init__(self, up: Loopback, out: Path) -> None:
        self.up = up
        self.out = out

    def settings(self, raw: dict[str, Any], **federation: Any) -> dict[str, Any]:
        own = {"folder": str(self.out), "deadline": 120, "start_wait": 120} | federation
        return settings_for(self.up.folder, flatten(raw | {"federation": own}))

    def link(self) -> SuperLink:
        return up_in(self.up.folder)

    def wait_for_round(self, t: int) -> None:
        """Until the line of round t is in the metrics."""
        self._wait(lambda: len(Folder(self.out).metrics()) >= t + 2)

    def wait_for_the_end(self) -> None:
        self._wait(lambda: (self.out / SUMMARY).exists())

    def model(self) -> torch.Tensor:
        return checkpoint.load(self.out / MODEL)[0]["x"]

    def records(self) -> list[dict[str, Any]]:
        return Folder.open(self.out).metrics()

    def _wait(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + 300
        while not done():
            assert time.monotonic() < end, "\n".join(p.read_text() for p in (self.up.folder / "logs").iterdir())
            time.sleep(0.2)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    """One federation for all tests that leave it as they find it."""
    with Loopback(tmp_path_factory.mktemp("federation"), CLIENTS) as up:
        mark = up.mark
        yield up
    assert processes.marked(mark) == [], "a process was left behind"


@pytest.mark.parametrize(
    "algorithm",
    [
        {"name": "fedamd", "p": 0.5, "cache": "client"},
        {"name": "fedamd", "p": 0.5, "cache": "server", "start_up": "lazy"},
        {"name": "fedamd", "tau": 2, "cache": "server", "start_up": "lazy"},
        {"name": "scaffold", "start_up": "zeros"},
        {"name": "fedavg"},
    ],
    ids=lambda algorithm: algorithm["name"],
)
def test_real_processes_come_to_the_model_of_the_simulation(
    plain: Loopback, tmp_path: Path, algorithm: dict[str, Any]
) -> None:
    raw = raw_config(algorithm)
    runner = Runner(plain, tmp_path / "run")
    assert run_on(runner.link(), tmp_path / "a.toml", runner.settings(raw)) == "finished:completed"
    torch.testing.assert_close(runner.model(), simulate(raw).state.x, atol=1e-6, rtol=0)


def test_a_failed_run_is_reported_as_failed(plain: Loopback, tmp_path: Path) -> None:
    """Nobody can be client 2 of 3 here, and all three are wanted."""
    runner = Runner(plain, tmp_path / "run")
    raw = raw_config({"name": "fedavg"}, clients=3, cohort=3)
    settings = runner.settings(raw, start_wait=0, min_replies=3, attempts=1)
    assert run_on(runner.link(), tmp_path / "a.toml", settings) == "finished:failed"


def test_a_model_of_ten_million_parameters_goes_through(plain: Loopback, tmp_path: Path) -> None:
    """mlp on 64 pixels and 10 classes has 75·hidden + 10 parameters."""
    model = {"name": "mlp", "hidden": 133_334}
    raw = raw_config({"name": "fedavg", "steps": 1}, rounds=1, model=model, oracle="autograd")
    runner = Runner(plain, tmp_path / "run")
    assert run_on(runner.link(), tmp_path / "a.toml", runner.settings(raw)) == "finished:completed"
    assert runner.model().numel() == 10_000_060
    assert runner.records()[-1].extras["wire_bits_up"] > CLIENTS * 32 * 10**7


def test_a_killed_server_goes_on_where_it_was(plain: Loopback, tmp_path: Path) -> None:
    raw = raw_config({"name": "fedamd", "p": 0.5, "cache": "client"})
    runner = Runner(plain, tmp_path / "run")
    settings = runner.settings(raw)
    runner.link().submit(tmp_path / "a.toml", settings)
    runner.wait_for_round(-1)
    servers = [pid for pid in processes.marked(plain.mark) if "flwr-serverapp" in command_of(pid)]
    assert servers
    for pid in servers:
        os.kill(pid, signal.SIGKILL)
    assert not (runner.out / SUMMARY).exists()
    runner.link().submit(tmp_path / "a.toml", settings)
    runner.wait_for_the_end()
    torch.testing.assert_close(runner.model(), simulate(raw).state.x, atol=1e-6, rtol=0)
    assert [record.round for record in runner.records()] == [-1, 0, 1]


def test_a_supernode_killed_in_mid_run_is_missing_and_its_replacement_takes_part(
    plain: Loopback, tmp_path: Path
) -> None:
    """Client 1 is killed after the start-up; the rounds go on without it, and with it once it is back."""
    raw = raw_config({"name": "fedamd", "p": 0.5, "cache": "client"}, rounds=200)
    runner = Runner(plain, tmp_path / "run")
    runner.link().submit(tmp_path / "a.toml", runner.settings(raw, deadline=30))
    runner.wait_for_round(-1)
    processes.end(plain.nodes[1], signal.SIGKILL)
    runner.wait_for_round(0)
    plain.start_client(1)
    runner._wait(lambda: any(record.missing == 0 for record in runner.records()[2:]))
    records = runner.records()
    assert records[0].missing == 0
    assert any(record.missing == 1 for record in records[1:])
    for record in records[1:]:
        if record.missing:
            assert record.extras["absent"] + record.extras["failed"] + record.extras["overdue"] >= 1


def test_tls_and_keys(tmp_path: Path) -> None:
    raw = raw_config({"name": "fedamd", "tau": 2, "cache": "client", "start_up": "lazy"})
    with Loopback(tmp_path / "federation", CLIENTS, tls=True) as up:
        runner = Runner(up, tmp_path / "run")
        settings = runner.settings(raw)
        assert settings["federation.keys"] == str(up.keys)
        assert stranger_is_refused(up, tmp_path / "stranger")
        assert run_on(runner.link(), tmp_path / "a.toml", settings) == "finished:completed"
        mark = up.mark
    torch.testing.assert_close(runner.model(), simulate(raw).state.x, atol=1e-6, rtol=0)
    assert all(record.extras["refused"] == 0 for record in runner.records())
    assert processes.marked(mark) == []


def stranger_is_refused(up: Loopback, key: Path) -> bool:
    """A SuperNode whose key was never registered ends by itself, and says why."""
    write_client_key(key)
    certificate = ["--root-certificates", str(up.folder / "keys" / "ca.crt")]
    command = ["flower-supernode", *certificate, "--superlink", up.address, "--host", "127.0.0.1"]
    command += ["--port", str(up.spare_port), "--auth-supernode-private-key", str(key), "--max-retries", "2"]
    log = up.folder / "logs" / "stranger.log"
    ended = processes.start(command, processes.environment(up.home, up.mark), log)
    return ended.wait(120) != 0 and "Failed to activate SuperNode" in log.read_text()


def command_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""
