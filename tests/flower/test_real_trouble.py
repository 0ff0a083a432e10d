"""Real processes in trouble: killed, stopped, hanging, mistaken; the run goes on, and nothing held is lost."""

import contextlib
import os
import signal
from pathlib import Path

import pytest
import torch
from flower_support import simulate
from process_support import CLIENTS, Runner, children, command_of, listening, raw_config, workers_of

from fedamd.flower.local import processes
from fedamd.flower.local.launch import run_on
from fedamd.flower.local.loopback import Loopback
from fedamd.runs.folder import SUMMARY

pytestmark = [pytest.mark.flower, pytest.mark.slow, pytest.mark.timeout(900)]


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


HANGS = """
import time
from torch import nn
from fedamd.flower.app.task import FederatedTask, from_config

class Net(nn.Linear):
    def __init__(self):
        super().__init__(64, 10)
    def forward(self, inputs):
        if len(inputs) > 8 and inputs.max() > 1000:  # not when the model is looked at with a few samples
            time.sleep(10_000)
        return super().forward(inputs.flatten(1))

def task(config):
    plain = from_config(config)
    def local_data(client):
        inputs, targets = plain.local_data(client)
        return inputs + 10_000 * (client == 1), targets
    return FederatedTask(Net, local_data, plain.test_data, plain.classes)
"""


def test_a_worker_that_hangs_is_ended_at_the_deadline_and_the_node_is_free(plain: Loopback, tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.mkdir()
    (app / "own_task.py").write_text(HANGS)
    runner = Runner(plain, tmp_path / "run")
    raw = raw_config({"name": "fedavg"}, oracle="autograd")
    settings = runner.settings(raw, deadline=12, task="own_task:task")
    assert run_on(runner.link(), app, settings) == "finished:completed"
    assert [record.missing for record in runner.records()[1:]] == [1, 1]
    log = (plain.folder / "logs" / "client-1.log").read_text()
    assert "Timeout" in log, "where it hung is in the log"
    assert "the worker ended with exit code 1" in log
    later = Runner(plain, tmp_path / "later")
    run_on(later.link(), tmp_path / "a.toml", later.settings(raw_config({"name": "fedavg"}), deadline=60))
    assert [record.missing for record in later.records()] == [0, 0, 0]


def test_a_worker_that_is_stopped_is_killed_with_its_message(plain: Loopback, tmp_path: Path) -> None:
    """A process that gets no processor at all cannot watch itself: its node does, when the message is over."""
    raw = raw_config({"name": "fedamd", "p": 0.5, "cache": "client"}, rounds=400)
    runner = Runner(plain, tmp_path / "run")
    run = runner.link().submit(tmp_path / "a.toml", runner.settings(raw, deadline=5))
    runner.wait_for_round(1)
    (stopped,) = workers_of(plain, 1)[-1:]
    os.kill(stopped, signal.SIGSTOP)
    runner._wait(lambda: any(record.missing for record in runner.records()))
    runner._wait(lambda: stopped not in workers_of(plain, 1))
    gone = len(runner.records())
    runner._wait(lambda: any(record.missing == 0 for record in runner.records()[gone:]))
    runner.link().stop(run)
    assert "and was ended" in (plain.folder / "logs" / "client-1.log").read_text()
    assert all(record.extras["lost"] == 0 for record in runner.records())


def test_workers_killed_in_the_start_up_take_part_in_it_all_the_same(plain: Loopback, tmp_path: Path) -> None:
    raw = raw_config({"name": "fedamd", "p": 0.5, "cache": "client"})
    runner = Runner(plain, tmp_path / "run")
    before = {worker for client in range(CLIENTS) for worker in workers_of(plain, client)}
    runner.link().submit(tmp_path / "a.toml", runner.settings(raw, retry_after=1))
    runner._wait(lambda: bool(set(workers_of(plain, 1)) - before))
    for worker in set(workers_of(plain, 1)) - before:
        os.kill(worker, signal.SIGKILL)
    runner.wait_for_the_end()
    torch.testing.assert_close(runner.model(), simulate(raw).state.x, atol=1e-6, rtol=0)
    assert [record.missing for record in runner.records()] == [0, 0, 0]


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
