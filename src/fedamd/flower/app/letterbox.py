"""All small messages in one request, and all replies that have come with one question; each is read on its own.

Flower's `Grid.push_messages` sends every object of a message with a request of its own, and its reader fetches it with
another. A message of Flower can as well have its content in it, and a client that stays reads it so.

Flower's `Grid.pull_messages` decodes all it has asked for or nothing, and waits a second or more for a reply whose
parts are still being uploaded. This asks once for all, takes the parts that are there, and looks for the others the
next time. It uses what is private in Flower, so it is for one version of it; `usable` says whether this is the one.
"""

import contextlib
import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from queue import Queue
from typing import Any

import httpx
from flwr.app import Message
from flwr.serverapp import Grid

from fedamd.flower import version

log = logging.getLogger("fedamd.flower")
_TOGETHER = 32  # messages in one request


def usable(grid: Grid) -> bool:
    """Whether replies can be had this way."""
    if not version.is_the_right_one():
        return False
    from flwr.superlink.grid.http_grid import HttpGrid

    return isinstance(grid, HttpGrid)


@dataclass
class _Arriving:
    """A reply whose parts are being fetched; `whole` if it came with its content, or is an error."""

    number: str
    wanted: list[str]
    whole: Any = None
    parts: dict[str, bytes] = field(default_factory=dict)


class Letterbox:
    """The replies of one run."""

    def __init__(self, grid: Any) -> None:
        self._grid = grid
        self._arriving: dict[str, _Arriving] = {}  # by the id of what they answer
        self._received: Queue[str] = Queue()  # replies that the SuperLink may forget
        threading.Thread(target=self._confirm_all, daemon=True).start()

    def send(self, messages: Sequence[Message]) -> list[str]:
        """Messages with their contents; their ids, "" where one was not taken."""
        return [
            number
            for first in range(0, len(messages), _TOGETHER)
            for number in self._send(messages[first : first + _TOGETHER])
        ]

    def _send(self, messages: Sequence[Message]) -> list[str]:
        from flwr.common.serde import message_to_proto
        from flwr.proto.message_pb2 import ObjectTree
        from flwr.proto.runtime_pb2 import PushAppMessagesRequest

        for message in messages:
            message.metadata.__dict__["_message_id"] = message.object_id
        request = PushAppMessagesRequest(
            messages_list=[message_to_proto(message) for message in messages],
            message_object_trees=[ObjectTree(object_id=message.metadata.message_id) for message in messages],
        )
        return list(self._grid._runtime_client.PushMessages(request).message_ids)

    def fetch(self, ids: Iterable[str]) -> dict[str, Message | None]:
        """The replies that are complete, by the id of what they answer; None for one that cannot be read."""
        asked = set(ids)
        if new := asked - self._arriving.keys():
            self._ask_for(sorted(new))
        return {one: reply for one in asked & self._arriving.keys() for reply in self._complete(one)}

    def _ask_for(self, ids: list[str]) -> None:
        from flwr.proto.runtime_pb2 import PullAppMessagesRequest
        from flwr.supercore.inflatable.inflatable_object import iterate_object_tree

        there = self._grid._runtime_client.PullMessages(PullAppMessagesRequest(message_ids=ids))
        for reply, tree in zip(there.messages_list, there.message_object_trees, strict=True):
            number, answers = reply.metadata.message_id, reply.metadata.reply_to_message_id
            if tree.children:
                self._arriving[answers] = _Arriving(number, [one.object_id for one in iterate_object_tree(tree)])
            else:
                self._arriving[answers] = _Arriving(number, [], whole=reply)

    def _complete(self, one: str) -> list[Message | None]:
        """The reply, if all of it is there."""
        arriving = self._arriving[one]
        try:
            if not self._take_parts(arriving):
                return []
            reply = self._decoded(arriving)
        except httpx.HTTPError:  # the SuperLink cannot be reached: no client's doing
            raise
        except Exception as error:
            log.warning("a reply could not be decoded: %s: %s", type(error).__name__, error)
            reply = None
        del self._arriving[one]
        return [reply]

    def _take_parts(self, arriving: _Arriving) -> bool:
        """Fetch what has been uploaded; whether nothing is missing."""
        from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
        from flwr.supercore.inflatable.inflatable_utils import ObjectUnavailableError

        pull = make_pull_object_fn_protobuf(
            self._grid._runtime_client.PullObject, self._grid.node, self._grid.run.run_id
        )
        for number in arriving.wanted:
            if number not in arriving.parts:
                try:
                    arriving.parts[number] = pull(number)
                except ObjectUnavailableError:
                    return False
        return True

    def _decoded(self, arriving: _Arriving) -> Message:
        from flwr.common.serde import message_from_proto
        from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

        self._received.put(arriving.number)
        if arriving.whole is not None:
            return message_from_proto(arriving.whole)
        reply = inflate_object_from_contents(arriving.number, arriving.parts)
        if not isinstance(reply, Message):
            raise TypeError(f"a {type(reply).__name__} is not a message")
        reply.metadata.__dict__["_message_id"] = arriving.number
        return reply

    def _confirm_all(self) -> None:
        """Have the SuperLink forget each reply: a request for each, for which no round waits."""
        from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest

        while True:
            number = self._received.get()
            words = {"node": self._grid.node, "run_id": self._grid.run.run_id, "message_object_id": number}
            with contextlib.suppress(Exception):  # whatever is wrong: it forgets all of them when the run ends
                self._grid._runtime_client.ConfirmMessageReceived(ConfirmMessageReceivedRequest(**words))
            self._received.task_done()
