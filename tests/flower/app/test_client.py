"""The client app on its own."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from flower_support import config
from flwr.app import ConfigRecord, Context, Message, RecordDict

from fedamd.algorithms.base import Batches
from fedamd.errors import FedamdError
from fedamd.flower.app import wire
from fedamd.flower.app.client import _time_left, app, hello
from fedamd.flower.app.settings import flatten
from fedamd.flower.app.wire import Answer, Form, Header
from fedamd.flower.local.inprocess import InProcessGrid
from fedamd.flower.local.processes import environment

AIM = "fedamd.algorithms.fedamd:aim_and_keep"
FORM = Form({name: (torch.Size([n]), torch.float32) for name, n in (("change", 650), ("fresh", 1))}, has_loss=True)


class Client:
    """Client 1 of four, with a folder of its own."""

    def __init__(self, folder: Path) -> None:
        InProcessGrid({}, {})  # a Message can be made
        self.node: dict[str, Any] = {"partition-id": 1, "state-dir": str(folder)}
        self.run = flatten(config({"name": "fedamd", "p": 0.5, "cache": "client"}))

    def context(self) -> Context:
        return Context(1, 5, self.node, RecordDict(), self.run)

    def message(self, kind: str, content: RecordDict) -> Message:
        return Message(content, dst_node_id=5, message_type=kind)

    def order(self, number: int, accepted: int = 0, **changes: Any) -> Answer:
        header = Header("r", AIM, 1, 0, 0, 0, number, accepted, 0, 60.0)
        header = Header(**(header.__dict__ | changes))
        x = changes.get("x", torch.zeros(650))
        content = wire.write_instruction(header, wire.write_payload({"x": x}, (Batches(1, "full"),)))
        return wire.read_answer(app(self.message("train", content), self.context()).content, number, FORM)


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


def test_it_says_who_it_is(client: Client) -> None:
    reply = hello(client.message("query", RecordDict({"hello": ConfigRecord()})), client.context())
    assert reply.content["hello"]["client"] == 1
    assert reply.content["hello"]["samples"] > 100


def test_a_change_is_taken_from_the_version_the_server_accepted(client: Client) -> None:
    """The gradient at one point is the same v every time; what is sent is v minus what the server has."""
    first = client.order(1)
    assert first.values["fresh"].item() == 1
    assert first.values["change"].norm() > 0
    lost = client.order(2)  # the server never got the first one
    assert torch.equal(lost.values["change"], first.values["change"])
    assert lost.values["fresh"].item() == 1
    then = client.order(3, accepted=2)
    assert torch.equal(then.values["change"], torch.zeros(650))
    assert then.values["fresh"].item() == 0


def test_stale_and_lost_are_said_and_not_guessed(client: Client) -> None:
    client.order(5)
    assert client.order(4).refusal.startswith("StaleInstruction")
    assert client.order(5).refusal.startswith("StaleInstruction")
    assert client.order(6, accepted=3).refusal.startswith("LostVersion")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"client": 2}, "this is client 1"),
        ({"role": "os:system"}, "belongs neither"),
        ({"role": "fedamd.algorithms.fedamd:FedAMD"}, "there is no role"),
        ({"role": ":schedule"}, "belongs neither"),
    ],
)
def test_it_does_only_what_a_client_does(client: Client, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(FedamdError, match=sentence):
        client.order(1, **changes)


def test_it_never_sends_what_is_not_finite(client: Client) -> None:
    header = Header("r", AIM, 1, 0, 0, 0, 1, 0, 0, 60.0)
    payload = wire.write_payload({"x": torch.full((650,), float("nan"))}, (Batches(1, "full"),))
    with pytest.raises(FedamdError, match="not finite"):
        app(client.message("train", wire.write_instruction(header, payload)), client.context())
    assert client.order(2).values["fresh"].item() == 1, "and it holds nothing of it"


def test_a_node_must_know_which_client_it_is(client: Client) -> None:
    del client.node["partition-id"]
    with pytest.raises(FedamdError, match="partition-id"):
        client.order(1)
    client.node["partition-id"] = 4
    with pytest.raises(FedamdError, match="clients 0 … 3"):
        client.order(1)


def test_the_time_a_client_has_is_counted_from_the_servers_clock() -> None:
    now = time.time()
    assert _time_left(now - 40, 60) == pytest.approx(20, abs=5)
    assert _time_left(now + 40, 60) == 60, "a clock that is behind gives no more than the whole"
    with pytest.raises(FedamdError, match="40 s after its deadline: is the clock"):
        _time_left(now - 100, 60)


@pytest.mark.slow
def test_the_watchdog_ends_a_process_that_hangs() -> None:
    code = "import time\nfrom fedamd.flower.app.client import _watchdog\nwith _watchdog(0.2): time.sleep(60)"
    env = environment(Path.home(), "watchdog")
    ended = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "Timeout" in ended.stderr
