"""A worker: the app of one run in a process of its own, loaded once, which answers one message after the other.

It keeps nothing between two messages that it could not lose: what a client holds is read from its disk and written back
for every instruction.
"""

import importlib
import json
import logging
import os
import select
import socket
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedamd.flower.node import frames

log = logging.getLogger("fedamd.node")
_NEEDED = (  # whatever the run
    "flwr.cli.install",
    "flwr.clientapp.utils",
    "fedamd.flower.app.client",
    "fedamd.flower.node.private_flwr",
)


@dataclass(frozen=True)
class Job:
    """What a worker has to know of its run."""

    run_id: int
    series_id: int
    node_id: int
    fab_id: str
    fab_version: str
    fab_hash: str
    run_config: dict[str, Any]
    node_config: dict[str, Any]
    folder: str  # in which the app's files get a folder of their own

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def preload() -> None:
    """Import everything that does not depend on the run."""
    for module in _NEEDED:
        importlib.import_module(module)


def work(channel: socket.socket) -> None:
    """Answer messages until the node has gone; end at once with it, even in the middle of work."""
    threading.Thread(target=_end_with, args=(channel,), daemon=True).start()
    start, fab = frames.receive(channel)
    desk = Desk(Job(**json.loads(start)), fab)
    while True:
        try:
            incoming = frames.receive(channel)
        except EOFError:
            return
        frames.send(channel, desk.answer(incoming))
        sys.stdout.flush()


def _end_with(channel: socket.socket) -> None:
    """`poll` without wishes wakes up for one thing: the other side has gone."""
    hung_up = select.poll()
    hung_up.register(channel.fileno(), 0)
    hung_up.poll()
    os._exit(1)


class Desk:
    """The app and its context."""

    def __init__(self, job: Job, fab: bytes) -> None:
        from fedamd.flower.node.private_flwr import Context, RecordDict, load_client_app, set_identity

        set_identity(job.run_id, job.node_id)
        self._context = Context(job.run_id, job.node_id, job.node_config, RecordDict(), job.run_config, job.series_id)
        self._app: Any = None
        self._failure = ""
        own = Path(tempfile.mkdtemp(dir=job.folder))
        try:
            self._app = load_client_app(fab, job.fab_id, job.fab_version, job.fab_hash, own)
        except Exception as error:
            self._failure = _sentence(error)

    def answer(self, incoming: list[bytes]) -> list[bytes]:
        """The reply; an app that cannot be loaded, or raises, is told in one sentence."""
        from fedamd.flower.node.private_flwr import Error, ErrorCode, Message, WireMessage

        parcel = WireMessage.from_frames(incoming)
        whole = parcel.is_whole
        message = parcel.opened()
        incoming.clear()
        if self._failure:
            reply = Message(Error(ErrorCode.LOAD_CLIENT_APP_EXCEPTION, self._failure), reply_to=message)
        else:
            try:
                reply = self._app(message=message, context=self._context)
            except Exception as error:
                log.debug("the app raised", exc_info=True)
                reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, _sentence(error)), reply_to=message)
        return WireMessage.of(reply, whole).to_frames()


def _sentence(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
