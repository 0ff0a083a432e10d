"""How long a worker has, with one that is only the other end of a pair of sockets."""

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from fedamd.flower.node import frames, workers
from fedamd.flower.node.private_flwr import WireMessage, set_identity
from fedamd.flower.node.worker import Job
from fedamd.flower.node.workers import WorkerHung, Workers

JOB = Job(7, 7, 5, "a/b", "1", "h", {}, {}, "apps")


class Slow:
    """In the place of the fork server: a worker sends back what it gets, after the next of some pauses."""

    def __init__(self, *pauses: float) -> None:
        self._pauses = list(pauses)
        self.forked = 0

    def fork(self, channel: socket.socket) -> int:
        self.forked += 1
        threading.Thread(target=self._live, args=(channel.dup(),), daemon=True).start()
        return 2**22 + 1  # no process has this number

    def _live(self, channel: socket.socket) -> None:
        with channel, suppress(OSError, EOFError):  # whoever asked may have gone
            frames.receive(channel)
            while self._pauses:
                asked = frames.receive(channel)
                time.sleep(self._pauses.pop(0))
                frames.send(channel, asked)

    def wait(self, process: int) -> None:
        """Nobody knows how it ended."""

    def stop(self) -> None:
        """There is nothing to stop."""


@pytest.fixture
def message() -> WireMessage:
    set_identity(7, 5)
    content = RecordDict({"q": ConfigRecord({"n": 1})})
    return WireMessage.of(Message(content, dst_node_id=5, message_type="train"), whole=True)


def made(monkeypatch: pytest.MonkeyPatch, folder: Path, server: Any) -> Workers:
    monkeypatch.setattr(workers, "ForkServer", lambda: server)
    return Workers(folder / "apps")


def test_a_new_worker_has_time_to_load_and_one_that_is_known_has_the_time_of_its_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, message: WireMessage
) -> None:
    server = Slow(0.3, 0.0, 30.0)
    several = made(monkeypatch, tmp_path, server)
    for seconds in (0.05, 5.0):
        assert several.ask(JOB, b"", message, seconds).message.metadata.message_id
    assert server.forked == 1
    with pytest.raises(WorkerHung, match="had not replied after 0 s and was ended"):
        several.ask(JOB, b"", message, 0.05)
    assert several.processes() == {}


def test_a_new_worker_that_never_loads_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, message: WireMessage
) -> None:
    monkeypatch.setattr(workers, "FIRST", 0.1)
    with pytest.raises(WorkerHung):
        made(monkeypatch, tmp_path, Slow(30.0)).ask(JOB, b"", message, 0.05)
