"""One question for all replies, each read on its own."""

import threading
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.node_pb2 import Node

from fedamd.flower import version
from fedamd.flower.app import letterbox
from fedamd.flower.app.letterbox import Letterbox
from fedamd.flower.app.mailbox import Mailbox
from fedamd.flower.local.inprocess import InProcessGrid
from fedamd.flower.node.private_flwr import WireMessage, set_identity


class FakeSuperLink:
    """Replies to messages "a" and "b", whose parts may be missing, broken or out of reach."""

    def __init__(self) -> None:
        set_identity(1, 1)
        self.questions: list[list[str]] = []
        self.confirmed: list[str] = []
        self.pushed: list[Any] = []
        self.late: set[str] = set()
        self.objects: dict[str, bytes] = {}
        self.replies: dict[str, WireMessage] = {}
        for name in "ab":
            question = Message(RecordDict(), dst_node_id=5, message_type="train")
            question.metadata.__dict__["_message_id"] = name
            reply = WireMessage.of(Message(RecordDict({"r": ConfigRecord({"name": name})}), reply_to=question))
            self.replies[name] = reply
            self.objects |= reply.parts
        self.grid = SimpleNamespace(_runtime_client=self, node=Node(node_id=1), run=SimpleNamespace(run_id=1))

    def PullMessages(self, request: Any) -> Any:
        self.questions.append(list(request.message_ids))
        found = [self.replies.pop(name) for name in list(request.message_ids) if name in self.replies]
        return SimpleNamespace(
            messages_list=[message_to_proto(one.message) for one in found],
            message_object_trees=[one.tree for one in found],
        )

    def PullObject(self, request: Any) -> Any:
        if "gone" in self.late:
            raise httpx.ConnectError("gone")
        available = request.object_id not in self.late
        content = self.objects[request.object_id] if available else b""
        return SimpleNamespace(object_found=True, object_available=available, object_content=content)

    def ConfirmMessageReceived(self, request: Any) -> None:
        self.confirmed.append(request.message_object_id)

    def PushMessages(self, request: Any) -> Any:
        self.pushed.append(request)
        return SimpleNamespace(message_ids=[one.metadata.message_id for one in request.messages_list])


def name_of(reply: Message | None) -> object:
    return None if reply is None else reply.content["r"]["name"]


def test_all_replies_with_one_question() -> None:
    link = FakeSuperLink()
    box = Letterbox(link.grid)
    found = box.fetch(["a", "b", "c"])
    assert {one: name_of(reply) for one, reply in found.items()} == {"a": "a", "b": "b"}
    assert link.questions == [["a", "b", "c"]]
    box._received.join()
    assert len(link.confirmed) == 2


def test_a_reply_that_comes_whole_is_read_as_it_is() -> None:
    link = FakeSuperLink()
    link.replies["a"] = WireMessage.of(link.replies["a"].opened(), whole=True)
    link.objects.clear()
    box = Letterbox(link.grid)
    assert name_of(box.fetch(["a"])["a"]) == "a"
    box._received.join()
    assert len(link.confirmed) == 1


def test_no_reply_is_lost_or_waits_because_the_superlink_cannot_be_told_to_forget_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def busy(request: Any) -> None:
        asked.append(request.message_object_id)
        assert go_on.wait(30)
        raise httpx.ReadTimeout("busy")

    asked: list[str] = []
    go_on = threading.Event()
    link = FakeSuperLink()
    monkeypatch.setattr(link, "ConfirmMessageReceived", busy)
    box = Letterbox(link.grid)
    assert len(box.fetch(["a", "b"])) == 2
    go_on.set()
    box._received.join()
    assert len(asked) == 2


def test_no_crowd_waits_for_objects_that_come_the_slow_way() -> None:
    """Flower announces all messages it is given before it sends the first of their objects."""

    class Counting(InProcessGrid):
        def push_messages(self, messages: Any) -> list[str]:
            groups.append(len(messages))
            return [] if len(groups) == 2 else super().push_messages(messages)

    groups: list[int] = []
    ids = Mailbox(Counting({}, {})).send([(node, RecordDict()) for node in range(40)], "query", ttl=10)
    assert groups == [16, 16, 8]
    assert [number != "" for number in ids] == [True] * 16 + [False] * 16 + [True] * 8, "one group was too large"


def test_small_messages_go_together_and_whole_to_nodes_that_read_them() -> None:
    link = FakeSuperLink()
    post = Mailbox(InProcessGrid({}, {}))
    post._quick, post.read_whole = Letterbox(link.grid), {5, 6, 8}
    small, large = RecordDict({"r": ConfigRecord({"n": 1})}), RecordDict({"vectors": ArrayRecord()})
    ids = post.send([(5, small), (6, small), (7, small), (8, large)], "train", ttl=10)
    (request,) = link.pushed
    assert [one.metadata.dst_node_id for one in request.messages_list] == [5, 6]
    assert ids == [*(tree.object_id for tree in request.message_object_trees), "1", "2"], "the others go Flower's way"
    assert [message_from_proto(one).content["r"]["n"] for one in request.messages_list] == [1, 1]


def test_many_messages_go_in_several_requests() -> None:
    link = FakeSuperLink()
    messages = [Message(RecordDict(), dst_node_id=node, message_type="train") for node in range(2, 72)]
    assert len(set(Letterbox(link.grid).send(messages))) == 70
    assert [len(request.messages_list) for request in link.pushed] == [32, 32, 6]


def test_a_reply_still_being_uploaded_holds_nobody_up_and_is_not_asked_for_again() -> None:
    link = FakeSuperLink()
    link.late = {next(iter(link.replies["a"].parts))}
    box = Letterbox(link.grid)
    assert list(box.fetch(["a", "b"])) == ["b"]
    assert list(box.fetch(["a"])) == []
    link.late.clear()
    assert name_of(box.fetch(["a"])["a"]) == "a"
    assert link.questions == [["a", "b"]]


def test_a_reply_that_cannot_be_decoded_takes_no_other_with_it() -> None:
    link = FakeSuperLink()
    link.objects[list(link.replies["a"].parts)[-1]] = b"rubbish"
    found = Letterbox(link.grid).fetch(["a", "b"])
    assert {one: name_of(reply) for one, reply in found.items()} == {"a": None, "b": "b"}


def test_a_superlink_out_of_reach_is_no_clients_doing() -> None:
    link = FakeSuperLink()
    link.late = {"gone"}
    with pytest.raises(httpx.ConnectError):
        Letterbox(link.grid).fetch(["a"])


def test_another_version_of_flower_is_served_the_public_way(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not letterbox.usable(InProcessGrid({}, {}))
    monkeypatch.setattr(version, "installed", lambda: "1.42.0")
    assert not letterbox.usable(InProcessGrid({}, {}))
