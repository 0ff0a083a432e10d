"""The node's loop with a SuperLink and workers made of lists."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from fedamd.errors import FedamdError
from fedamd.flower.metrics import Page
from fedamd.flower.node import node as node_module
from fedamd.flower.node import private_flwr
from fedamd.flower.node.link import Link, NodeIdentity, Options
from fedamd.flower.node.node import Node
from fedamd.flower.node.pace import Pace
from fedamd.flower.node.private_flwr import WireMessage
from fedamd.flower.node.workers import WorkerDied, WorkerHung


class Done(Exception):
    """The test is over."""


class FakeLink:
    """Messages in, replies out."""

    def __init__(self, incoming: list[Message], whole: bool = False) -> None:
        private_flwr.set_identity(7, 5)
        self.incoming = [WireMessage.of(message, whole) for message in incoming]
        self.objects = {number: part for one in self.incoming for number, part in one.parts.items()}
        self.replies: list[Message] = []
        self.whole: list[Message] = []
        self.pushed: set[str] = set()
        self.confirmed: list[str] = []

    def link(self) -> Link:
        return Link(
            5,
            self.receive,
            self.send,
            lambda run: SimpleNamespace(fab_hash="h", fab_id="a/b", fab_version="1", series_id=run),
            lambda *_: SimpleNamespace(content=b"fab", hash_str="h", verifications={}),
            lambda _, number: self.objects[number],
            lambda *words: self.pushed.add(words[2]),
            lambda _, number: self.confirmed.append(number),
            self.send_whole,
        )

    def receive(self) -> Any:
        if not self.incoming:
            raise Done
        one = self.incoming.pop(0)
        return one.message, one.tree

    def send(self, message: Message, tree: Any, seconds: float) -> tuple[set[str], str]:
        assert seconds >= 0
        self.replies.append(message)
        return {one.object_id for one in private_flwr.iterate_object_tree(tree)}, "session"

    def send_whole(self, message: Message, seconds: float) -> None:
        assert seconds >= 0
        self.whole.append(message)


class FakeWorkers:
    folder = Path("apps")

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.seconds: list[float] = []

    def ask(self, job: Any, fab: bytes, parcel: WireMessage, seconds: float) -> WireMessage:
        self.seconds.append(seconds)
        assert (job.run_id, job.node_config, fab) == (7, {"partition-id": 1}, b"fab")
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        whole, message = parcel.is_whole, parcel.opened()
        return WireMessage.of(Message(RecordDict({"r": ConfigRecord({"n": answer})}), reply_to=message), whole)

    def end_idle(self) -> None:
        pass


@pytest.fixture
def messages() -> list[Message]:
    private_flwr.set_identity(7, 1)
    return [
        Message(RecordDict({"q": ConfigRecord({"n": n})}), dst_node_id=5, message_type="train", ttl=100) for n in (1, 2)
    ]


def serve(monkeypatch: pytest.MonkeyPatch, link: FakeLink, workers: Any, trusted: Any = None) -> str:
    """Until there are no more messages; what the node's page for Prometheus says then."""
    page = Page("client")
    monkeypatch.setattr(private_flwr, "get_fused_config_from_fab", lambda *_: {"clients": 4})
    with pytest.raises(Done):
        Node(link.link(), workers, {"partition-id": 1}, Pace(), page, trusted).serve(lambda _: None)
    return page.text()


def test_each_message_is_fetched_confirmed_answered_and_its_reply_sent(
    monkeypatch: pytest.MonkeyPatch, messages: list[Message]
) -> None:
    link, workers = FakeLink(messages), FakeWorkers(10, 20)
    sent = [one.message.metadata.message_id for one in link.incoming]
    serve(monkeypatch, link, workers)
    assert link.confirmed == sent
    assert [reply.metadata.reply_to_message_id for reply in link.replies] == sent
    assert len(link.pushed) == 2 * 3, "message, content and record of each reply"
    assert all(95 < seconds <= 102 for seconds in workers.seconds), "a worker has as long as the message lives"


def test_a_message_that_comes_whole_is_answered_whole_with_no_object_fetched_or_sent(
    monkeypatch: pytest.MonkeyPatch, messages: list[Message]
) -> None:
    link = FakeLink(messages, whole=True)
    assert not link.objects
    told = serve(monkeypatch, link, FakeWorkers(10, WorkerDied("it died")))
    assert "\nfedamd_client_messages_total 2\n" in told
    assert "\nfedamd_client_failures_total 1\n" in told
    assert link.whole[0].content["r"]["n"] == 10
    assert link.whole[1].error.reason == "it died"
    assert not link.pushed
    assert not link.replies
    assert len(link.confirmed) == 2


@pytest.mark.parametrize("trouble", [WorkerDied("it died"), WorkerHung("it hung")])
def test_a_worker_that_fails_is_told_at_once_and_the_next_message_is_answered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, messages: list[Message], trouble: Exception
) -> None:
    link = FakeLink(messages)
    with caplog.at_level(logging.WARNING, logger="fedamd.node"):
        serve(monkeypatch, link, FakeWorkers(trouble, 20))
    assert [reply.has_error() for reply in link.replies] == [True, False]
    assert (link.replies[0].error.code, link.replies[0].error.reason) == (8, str(trouble))
    assert str(trouble) in caplog.text, "and on this machine, too"


def test_a_message_whose_time_is_over_costs_no_worker(monkeypatch: pytest.MonkeyPatch, messages: list[Message]) -> None:
    for message in messages:
        message.metadata.created_at -= 200
    link = FakeLink(messages)
    serve(monkeypatch, link, FakeWorkers())
    assert ["its time was over" in reply.error.reason for reply in link.replies] == [True, True]


def test_an_app_nobody_trusted_has_signed_does_not_run(
    monkeypatch: pytest.MonkeyPatch, messages: list[Message]
) -> None:
    link = FakeLink(messages)
    serve(monkeypatch, link, FakeWorkers(), trusted={"fpk_1": "ssh-ed25519 AAAA"})
    assert all("not signed" in reply.error.reason for reply in link.replies)


def test_a_second_process_of_the_same_client_is_refused(tmp_path: Path) -> None:
    NodeIdentity(tmp_path, "client-3", None)
    with pytest.raises(FedamdError, match=r"client-3\.lock is taken"):
        NodeIdentity(tmp_path, "client-3", None)
    NodeIdentity(tmp_path, "client-4", None)


def test_a_client_that_comes_back_is_the_same_node(tmp_path: Path) -> None:
    import os

    first = NodeIdentity(tmp_path, "client-3", None)
    first.became(99)
    os.close(first._lock)
    assert (tmp_path / "client-3.node.json").stat().st_mode & 0o777 == 0o600
    again = NodeIdentity(tmp_path, "client-3", None)
    assert again.node_id == 99
    assert again.key.private_numbers() == first.key.private_numbers()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"superlink": "nonsense"}, "is not an address"),
        ({"node_config": "partition-id=x y"}, "--node-config"),
        ({"private_key": Path("nowhere"), "insecure": False}, "cannot be read as a private key"),
        ({"private_key": Path("nowhere")}, "--insecure goes with neither"),
        ({"root_certificates": Path("nowhere"), "insecure": False}, "cannot read nowhere"),
    ],
)
def test_bad_options_are_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    monkeypatch.setattr(node_module, "_leave_on_signals", lambda: None)
    monkeypatch.setattr(node_module, "Workers", lambda _: SimpleNamespace(stop=lambda: None))
    monkeypatch.setattr(node_module, "_DEFAULT_STATE", tmp_path)
    with pytest.raises(FedamdError, match=sentence):
        node_module.run(Options(**({"superlink": "127.0.0.1:1", "insecure": True} | options)))
