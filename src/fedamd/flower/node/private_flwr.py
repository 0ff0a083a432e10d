"""Everything the node and the worker use of Flower that is not in its public interface: here and nowhere else.

Objects of a message travel by their ids, each with requests of its own; a small message travels whole, in the request
that announces it. `WireMessage` is a message in either form, as it goes over the wire and between node and worker.
tests/flower/node/test_private_flwr.py says what is expected of each of these names.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.clientapp import ClientApp
from flwr.common.config import get_fused_config_from_fab, parse_config_args
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import DeactivateNodeRequest, PushMessagesRequest, RegisterNodeFleetRequest
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.node_pb2 import Node
from flwr.supercore import heartbeat
from flwr.supercore.address import parse_address
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import (
    inflate_object_from_contents,
    pull_objects,
    push_object_contents_from_iterable,
)
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode import fleet_http_client, fleet_http_connection
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.fleet_http_connection import http_request_response
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedamd.flower.version import HEARTBEAT

__all__ = [
    "ClientApp",
    "Context",
    "DeactivateNodeRequest",
    "Error",
    "ErrorCode",
    "FleetHttpClient",
    "Message",
    "NodeAuthHttpInterceptor",
    "ObjectTree",
    "RecordDict",
    "RegisterNodeFleetRequest",
    "RunNotRunningException",
    "RuntimeVersionHttpInterceptor",
    "WireMessage",
    "beat_patiently",
    "comes_whole",
    "get_fused_config_from_fab",
    "http_request_response",
    "is_small",
    "load_client_app",
    "make_simple_http_retry_invoker",
    "parse_address",
    "parse_config_args",
    "public_key_to_bytes",
    "pull_parts",
    "push_parts",
    "send_whole",
    "set_identity",
    "trusted_entities",
    "verify_fab",
]
_PATIENCE = 25.0  # seconds for its answer; Flower's is 5, and then a busy SuperLink is asked once more, in vain again
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5  # seconds between two looks for an object whose sender is still uploading it


@dataclass(frozen=True)
class WireMessage:
    """A message without its content, the tree of its objects' ids, and the objects; or a whole one, and no objects."""

    message: Message
    tree: ObjectTree
    parts: dict[str, bytes]

    @property
    def is_whole(self) -> bool:
        return not self.parts

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return sum(map(len, self.parts.values())) or message_to_proto(self.message).ByteSize()

    @classmethod
    def of(cls, message: Message, whole: bool = False) -> "WireMessage":
        """A message that was made here, ready to go; `whole` if the other side can read it so, and it is small."""
        message.metadata.__dict__["_message_id"] = message.object_id
        if whole and is_small(message):
            return cls(message, ObjectTree(object_id=message.object_id), {})
        with no_object_id_recompute():
            parts = {number: part.deflate() for number, part in get_all_nested_objects(message).items()}
            return cls(remove_content_from_message(message), get_object_tree(message), parts)

    def opened(self) -> Message:
        """The message with its content; takes the objects out of `parts`."""
        if self.is_whole:
            return self.message
        number = self.message.metadata.message_id
        message = inflate_object_from_contents(number, self.parts)
        assert isinstance(message, Message)
        message.metadata.__dict__["_message_id"] = number
        return message

    def to_frames(self) -> list[bytes]:
        """As bytes, for another process."""
        ids = "\n".join(self.parts).encode()
        head = message_to_proto(self.message).SerializeToString()
        return [head, self.tree.SerializeToString(), ids, *self.parts.values()]

    @classmethod
    def from_frames(cls, frames: list[bytes]) -> "WireMessage":
        """What `to_frames` made."""
        head, tree, ids, *parts = frames
        names = ids.decode().split("\n") if parts else []
        message = message_from_proto(ProtoMessage.FromString(head))
        return cls(message, ObjectTree.FromString(tree), dict(zip(names, parts, strict=True)))


def is_small(message: Message) -> bool:
    """Whether it travels whole: fedamd puts vectors into Flower's arrays only when they are large."""
    return message.has_error() or not message.content.array_records


def comes_whole(tree: ObjectTree) -> bool:
    """Whether the message that came with this tree has its content in it: else the tree has a branch for it."""
    return not tree.children


def send_whole(client: FleetHttpClient, node_id: int, message: Message, seconds: float) -> None:
    """A reply in one request, where Flower's own connection takes its content out."""
    client.PushMessages(
        PushMessagesRequest(
            node=Node(node_id=node_id),
            messages_list=[message_to_proto(message)],
            message_object_trees=[ObjectTree(object_id=message.metadata.message_id)],
            clientapp_runtime_list=[seconds],
        )
    )


def beat_patiently() -> None:
    """Heartbeats of a node: 1,000 of Flower's alone are 50 requests a second, and more when the first take too long."""
    vars(heartbeat)["HEARTBEAT_DEFAULT_INTERVAL"] = HEARTBEAT
    vars(fleet_http_connection)["HEARTBEAT_DEFAULT_INTERVAL"] = HEARTBEAT
    vars(fleet_http_client)["HEARTBEAT_CALL_TIMEOUT"] = _PATIENCE


def set_identity(run: int, node: int) -> None:
    """Who makes messages in this process; Flower asks for a task, of which there is one."""
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, run, node


def pull_parts(tree: ObjectTree, pull: Callable[[str], bytes]) -> dict[str, bytes]:
    """The objects of a message, each once it is there."""
    wanted = [one.object_id for one in iterate_object_tree(tree)]
    parts: dict[str, bytes] = pull_objects(wanted, pull, initial_backoff=_FIRST_PAUSE, backoff_cap=_LONGEST_PAUSE)
    return parts


def push_parts(parts: Iterable[tuple[str, bytes]], push: Callable[[str, bytes], None]) -> None:
    push_object_contents_from_iterable(parts, push)


def load_client_app(fab: bytes, fab_id: str, fab_version: str, fab_hash: str, folder: Path) -> ClientApp:
    """The ClientApp of a run, its files in `folder`."""
    from flwr.cli.install import install_from_fab
    from flwr.clientapp.utils import get_load_client_app_fn

    installed = install_from_fab(fab, folder, skip_prompt=True)
    return get_load_client_app_fn("", str(installed), multi_app=True)(fab_id, fab_version, fab_hash)


def trusted_entities(path: Path) -> dict[str, str]:
    """The keys of those whose apps may run here."""
    from flwr.supernode.cli.flower_supernode import _try_obtain_trusted_entities, _validate_public_keys_ed25519

    entities = _try_obtain_trusted_entities(path) or {}
    _validate_public_keys_ed25519(entities)
    return entities


def verify_fab(fab: Any, entities: dict[str, str]) -> bool:
    """Whether one of these has signed the app."""
    from flwr.supernode.start_client_internal import _verify_fab

    return bool(fab.verifications.get("valid_license")) and bool(_verify_fab(fab, entities))
