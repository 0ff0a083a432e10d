"""Real processes: a SuperLink and clients that stay on 127.0.0.1, and Flower's own SuperNodes beside them.

Everything that can go wrong in a client is tested without processes, in test_engine.py; here it is tested that the
processes are what the in-process federation says they are.
"""

import contextlib
import os
import signal
import sys
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
from fedamd.runs.folder import MODEL, SUMMARY, Folder
from fedamd.runs.model_file import read_vector

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
        return read_vector(self.out / MODEL)

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


def workers_of(up: Loopback, client: int) -> list[int]:
    """The processes forked by the fork server of this client, children of a child of its node."""
    servers = children(up.nodes[client].pid)
    return [worker for server in servers for worker in children(server)]


def children(pid: int) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def listening(pids: list[int]) -> list[str]:
    """The TCP ports and named sockets on which any of these processes can be spoken to."""
    inodes = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(entry))
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.append(fields[1])
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if f"socket:[{fields[6]}]" in inodes and len(fields) > 7:
            found.append(fields[7])
    return found


def test_a_killed_worker_fails_at_once_and_is_replaced_and_nobody_can_speak_to_a_client(
    plain: Loopback, tmp_path: Path
) -> None:
    """The worker of client 1 is killed in mid-run: its message fails long before the deadline; the next is answered."""
    raw = raw_config({"name": "fedamd", "p": 0.5, "cache": "client"}, rounds=400)
    runner = Runner(plain, tmp_path / "run")
    run = runner.link().submit(tmp_path / "a.toml", runner.settings(raw, deadline=100))
    runner.wait_for_round(1)
    own = [plain.nodes[1].pid, *children(plain.nodes[1].pid), *workers_of(plain, 1)]
    assert listening(own) == []
    assert len(workers_of(plain, 1)) >= 1
    for worker in workers_of(plain, 1):
        os.kill(worker, signal.SIGKILL)
    before = len(runner.records())
    runner._wait(lambda: len(runner.records()) > before + 6)
    runner.link().stop(run)
    records = runner.records()
    assert sum(record.missing for record in records) <= 1
    assert all(record.seconds < 60 for record in records), "nobody waited for the deadline"
    assert workers_of(plain, 1), "there is a new worker"


def test_a_killed_node_comes_back_as_the_same_node_at_once(plain: Loopback, tmp_path: Path) -> None:
    raw = raw_config({"name": "fedamd", "p": 0.5, "cache": "client"}, rounds=400)
    runner = Runner(plain, tmp_path / "run")
    run = runner.link().submit(tmp_path / "a.toml", runner.settings(raw, deadline=60))
    runner.wait_for_round(1)
    identity = (plain.state / "client-0.node.json").read_text()
    left = [*children(plain.nodes[0].pid), *workers_of(plain, 0)]
    processes.end(plain.nodes[0], signal.SIGKILL)
    runner._wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))
    plain.start_client(0)
    before = len(runner.records())
    runner._wait(lambda: any(record.missing == 0 for record in runner.records()[before + 1 :]))
    runner.link().stop(run)
    assert (plain.state / "client-0.node.json").read_text() == identity
    assert all(record.extras["lost"] == 0 for record in runner.records())


OWN_TASK = """
import time, torch
from fedamd.flower.app.task import FederatedTask, from_config
from fedamd.errors import FedamdError

def task(config):
    plain = from_config(config)
    def local_data(client):
        if client == 1:
            {trouble}
        return plain.local_data(client)
    return FederatedTask(plain.model, local_data, plain.test_data, plain.classes)
"""


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        ("raise FedamdError('there is no data in /data')", "there is no data in /data"),
        ("import hospital_models", "No module named 'hospital_models'"),
    ],
    ids=["no data", "no model"],
)
def test_a_client_that_cannot_take_part_says_why_here_and_there_and_the_others_go_on(
    plain: Loopback, tmp_path: Path, trouble: str, sentence: str
) -> None:
    app = tmp_path / "app"
    app.mkdir()
    (app / "own_task.py").write_text(OWN_TASK.format(trouble=trouble))
    raw = raw_config({"name": "fedavg"})
    runner = Runner(plain, tmp_path / "run")
    settings = runner.settings(raw, start_wait=20, task="own_task:task")
    shown: list[str] = []
    assert run_on(runner.link(), app, settings, shown.append) == "finished:completed"
    assert sentence in "\n".join(shown), "on the server"
    assert sentence in (plain.folder / "logs" / "client-1.log").read_text(), "and on the client"
    assert [record.missing for record in runner.records()[1:]] == [1, 1]


def test_flowers_own_nodes_and_clients_that_stay_work_side_by_side(tmp_path: Path) -> None:
    raw = raw_config({"name": "fedamd", "p": 0.5, "cache": "client"})
    with Loopback(tmp_path / "federation", CLIENTS) as up:
        processes.end(up.nodes[1])
        up.stock = True
        up.start_client(1)
        runner = Runner(up, tmp_path / "run")
        assert run_on(runner.link(), tmp_path / "a.toml", runner.settings(raw)) == "finished:completed"
    torch.testing.assert_close(runner.model(), simulate(raw).state.x, atol=1e-6, rtol=0)


def test_a_federation_whose_superlink_died_is_whole_again(tmp_path: Path) -> None:
    """In memory the SuperLink forgets runs and nodes; the clients join the new one, and the run goes on."""
    raw = raw_config({"name": "fedamd", "p": 0.5, "cache": "client"}, rounds=4)
    with Loopback(tmp_path / "federation", CLIENTS) as up:
        runner = Runner(up, tmp_path / "run")
        runner.link().submit(tmp_path / "a.toml", runner.settings(raw))
        runner.wait_for_round(0)
        assert up.superlink is not None
        processes.end(up.superlink, signal.SIGKILL)
        for pid in processes.marked(up.mark):
            if any(word in command_of(pid) for word in ("flwr-serverapp", "flower-superexec")):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        assert any("SuperLink has ended" in told for told in up.revive())
        assert run_on(runner.link(), tmp_path / "a.toml", runner.settings(raw)) == "finished:completed"
    torch.testing.assert_close(runner.model(), simulate(raw).state.x, atol=1e-6, rtol=0)
    assert [record.round for record in runner.records()] == [-1, 0, 1, 2, 3]


def test_a_client_that_is_killed_and_stays_away_is_missing_until_it_is_back(plain: Loopback, tmp_path: Path) -> None:
    raw = raw_config({"name": "fedamd", "p": 0.5, "cache": "client"}, rounds=400)
    runner = Runner(plain, tmp_path / "run")
    run = runner.link().submit(tmp_path / "a.toml", runner.settings(raw, deadline=20))
    runner.wait_for_round(-1)
    processes.end(plain.nodes[1], signal.SIGKILL)
    runner._wait(lambda: any(record.missing for record in runner.records()))
    plain.start_client(1)
    away = len(runner.records())
    runner._wait(lambda: any(record.missing == 0 for record in runner.records()[away + 1 :]))
    runner.link().stop(run)
    for record in runner.records()[1:]:
        if record.missing:
            assert sum(record.extras[event] for event in ("absent", "failed", "overdue", "skipped")) >= 1


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
    command = [sys.executable, "-m", "fedamd", "federation", "client", *certificate, "--superlink", up.address]
    command += ["--auth-supernode-private-key", str(key), "--max-retries", "2"]
    command += ["--node-config", f'partition-id=1 state-dir="{key.parent / "elsewhere"}"']
    log = up.folder / "logs" / "stranger.log"
    ended = processes.start(command, processes.environment(up.home, up.mark), log)
    return ended.wait(120) != 0 and "Failed to activate SuperNode" in log.read_text()


def command_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""
