"""A Grid in one process: every node is a call of the client app. For trying a task out, and for tests."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from fedamd.flower.app.client import app
from fedamd.flower.app.mailbox import Mailbox
from fedamd.flower.app.server import lead, show_log
from fedamd.flower.app.settings import read_settings
from fedamd.flower.local.launch import clients_of
from fedamd.registry import importable

_SERVER_NODE = 1
_RAISED = 2  # Flower's code for a client app that raised


class InProcessGrid(Grid):
    """Nodes by id, each with its own configuration; a message is answered while it is being sent."""

    def __init__(self, nodes: Mapping[int, Mapping[str, Any]], run_config: Mapping[str, Any]) -> None:
        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = _SERVER_NODE  # a Message needs to know
        self.nodes = dict(nodes)
        self.run_config = dict(run_config)
        self._replies: dict[str, Message] = {}
        self._ids = map(str, itertools.count(1))

    def answer(self, message: Message) -> Message | None:
        """What the node replies; None where nothing comes back."""
        node = message.metadata.dst_node_id
        context = Context(_SERVER_NODE, node, dict(self.nodes[node]), RecordDict(), self.run_config)
        try:
            return app(message, context)
        except Exception as error:  # as a SuperNode does
            return Message(Error(_RAISED, f"{type(error).__name__}: {error}"), reply_to=message)

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        return [self._push(message) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._replies.pop(number) for number in list(message_ids) if number in self._replies]

    def _push(self, message: Message) -> str:
        number = next(self._ids)
        message.metadata.__dict__["_message_id"] = number
        if message.metadata.dst_node_id in self.nodes and (reply := self.answer(message)) is not None:
            self._replies[number] = reply
        return number

    # --- the rest of Flower's interface, which nothing here calls ---

    def set_run(self, run: Run) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Run:
        raise NotImplementedError

    def create_message(self, *args: Any, **options: Any) -> Message:
        raise NotImplementedError

    def send_and_receive(self, *args: Any, **options: Any) -> Iterable[Message]:
        raise NotImplementedError


def participants(clients: Iterable[int], state: Callable[[int], str]) -> dict[int, dict[str, Any]]:
    """Nodes for these clients; `state` gives each its folder. Node ids say nothing about clients, as in real life."""
    return {7000 + 13 * client: {"partition-id": client, "state-dir": state(client)} for client in clients}


def run_in_process(source: Path, settings: Mapping[str, Any]) -> None:
    """A whole run without a network; the clients' folders are beside the run's."""
    show_log()
    config, federation = read_settings(settings)
    importable(source if source.is_dir() else source.parent)  # where Flower, too, looks for the app's modules
    nodes = participants(range(config.clients), lambda _: str(clients_of(federation.folder)))
    lead(Mailbox(InProcessGrid(nodes, settings)), settings)
