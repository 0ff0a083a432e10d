"""The process that is connected: it fetches messages, has them answered by the run's worker, and sends the replies.

It imports no torch. One message is answered at a time, as by Flower's SuperNode.

the app raises, cannot be loaded       an error reply at once; the worker stays
the worker dies                        an error reply at once; the next message gets a new worker
the worker hangs                       it ends itself at the server's deadline; else it is killed with its message
this process dies                      fork server and workers end within a second, in the middle of work
the SuperLink is gone, or back         Flower's retries; one that has forgotten this node is joined again
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import httpx

from fedamd.errors import FedamdError
from fedamd.flower.metrics import Page
from fedamd.flower.node import private_flwr
from fedamd.flower.node.link import Link, NodeIdentity, Options, connected
from fedamd.flower.node.pace import Pace
from fedamd.flower.node.private_flwr import Error, ErrorCode, Message, ObjectTree, WireMessage
from fedamd.flower.node.worker import Job
from fedamd.flower.node.workers import WorkerDied, WorkerHung, Workers

log = logging.getLogger("fedamd.node")
_GRACE = 2.0  # seconds past a message's life before its worker is killed
_AGAIN = 3.0  # seconds before a lost connection is made anew
_DEFAULT_STATE = Path.home() / ".local" / "state" / "fedamd"


@dataclass(frozen=True)
class KnownRun:
    """A run this node has been asked for; `refusal` where its app may not run here."""

    job: Job
    fab: bytes
    refusal: str = ""


class Node:
    """A connected node."""

    def __init__(
        self,
        link: Link,
        workers: Workers,
        node_config: dict[str, Any],
        pace: Pace,
        page: Page,
        trusted: dict[str, str] | None,
    ) -> None:
        self._link = link
        self._workers = workers
        self._config = node_config
        self._pace = pace
        self._page = page
        self._trusted = trusted
        self._runs: dict[int, KnownRun] = {}
        private_flwr.set_identity(0, link.node_id)

    def serve(self, pause: Callable[[float], Any] = time.sleep) -> None:
        """For ever; an exception says that the connection is lost."""
        while True:
            try:
                asked = time.monotonic()
                found = self._link.receive()
                self._pace.was_told(time.monotonic() - asked)
                if found is not None:
                    self._pace.found_a_message()
                    self._deal_with(*found)
                    self._pace.has_answered()
                    continue
            except private_flwr.RunNotRunningException:
                log.info("a message of a run that has ended is dropped")
            self._workers.end_idle()
            pause(self._pace.pause())

    def _deal_with(self, message: Message, tree: ObjectTree) -> None:
        """One message, from its fetching to the sending of its reply."""
        started, run_id = time.monotonic(), message.metadata.run_id
        known = self._run(run_id)
        parcel = WireMessage(message, tree, {} if private_flwr.comes_whole(tree) else self._pulled(tree, run_id))
        self._link.confirm(run_id, message.metadata.message_id)
        received = parcel.size
        reply = self._answered(known, parcel)
        seconds = time.monotonic() - started
        self._page.set({"last_message_at": time.time(), "last_message_seconds": seconds})
        self._page.count("messages_total")
        self._page.count("bytes_received_total", received)
        self._page.count("bytes_sent_total", reply.size)
        if reply.message.has_error():
            self._page.count("failures_total")
            log.warning("%s of run %d failed: %s", message.metadata.message_type, run_id, reply.message.error.reason)
        self._send(reply, seconds)

    def _pulled(self, tree: ObjectTree, run_id: int) -> dict[str, bytes]:
        return private_flwr.pull_parts(tree, lambda number: self._link.pull_object(run_id, number))

    def _send(self, reply: WireMessage, seconds: float) -> None:
        if reply.is_whole:
            self._link.send_whole(reply.message, seconds)
            return
        run_id = reply.message.metadata.run_id
        missing, session = self._link.send(reply.message, reply.tree, seconds)
        private_flwr.push_parts(
            [(number, part) for number, part in reply.parts.items() if number in missing],
            lambda number, part: self._link.push_object(run_id, session, number, part),
        )

    def _answered(self, known: KnownRun, parcel: WireMessage) -> WireMessage:
        metadata = parcel.message.metadata
        if known.refusal:
            return _failed(parcel, ErrorCode.INVALID_FAB, known.refusal)
        life = metadata.created_at + metadata.ttl - time.time()
        if life <= 0:
            return _failed(parcel, ErrorCode.CLIENT_APP_CRASHED, "the message came when its time was over")
        try:
            return self._workers.ask(known.job, known.fab, parcel, life + _GRACE)
        except (WorkerDied, WorkerHung) as error:
            return _failed(parcel, ErrorCode.CLIENT_APP_CRASHED, str(error))

    def _run(self, run_id: int) -> KnownRun:
        if run_id not in self._runs:
            run = self._link.get_run(run_id)
            fab = self._link.get_fab(run.fab_hash, run_id)
            config = private_flwr.get_fused_config_from_fab(fab.content, run)
            if isinstance(clients := config.get("clients"), int):
                self._pace.one_of(clients)
            folder = str(self._workers.folder)
            names = (run.fab_id, run.fab_version, fab.hash_str)
            job = Job(run_id, run.series_id, self._link.node_id, *names, config, self._config, folder)
            refusal = "" if self._may_run(fab) else "the app is not signed by any of this client's trusted entities"
            self._runs = {run_id: KnownRun(job, fab.content, refusal), **self._last_runs()}
            log.info("run %d: its app is %s", run_id, run.fab_id)
        return self._runs[run_id]

    def _last_runs(self, most: int = 7) -> dict[int, KnownRun]:
        return dict(list(self._runs.items())[:most])

    def _may_run(self, fab: Any) -> bool:
        return self._trusted is None or private_flwr.verify_fab(fab, self._trusted)


def _failed(parcel: WireMessage, code: int, reason: str) -> WireMessage:
    return WireMessage.of(Message(Error(code, reason), reply_to=parcel.message), parcel.is_whole)


def run(options: Options) -> None:
    """Be a client of the federation until a signal ends this process."""
    _show_log()
    if options.insecure and (options.private_key or options.root_certificates):
        raise FedamdError("--insecure goes with neither keys nor certificates: leave it out, or leave them out")
    _leave_on_signals()
    config = _node_config(options.node_config)
    folder = Path(str(config.get("state-dir", _DEFAULT_STATE))).expanduser()
    name = f"client-{config['partition-id']}" if "partition-id" in config else "client"
    identity = NodeIdentity(folder, name, options.private_key)
    trusted = private_flwr.trusted_entities(options.trusted_entities) if options.trusted_entities else None
    page = Page("client")
    if options.metrics_port is not None:
        page.serve(options.metrics_port)
    workers = Workers(folder / f"{name}.apps")
    try:
        while True:
            with connected(options, identity) as link:
                log.info("connected to %s as node %d", options.superlink, link.node_id)
                _serve(Node(link, workers, config, Pace(), page, trusted))
            time.sleep(_AGAIN)
    finally:
        workers.stop()


def _serve(node: Node) -> None:
    try:
        node.serve()
    except httpx.HTTPStatusError as error:
        log.warning("the SuperLink does not know this node any more (%s): joining again", error.response.status_code)
    except Exception:
        log.exception("the connection is lost: joining again")


def _node_config(words: str) -> dict[str, Any]:
    try:
        config: dict[str, Any] = private_flwr.parse_config_args([words] if words else None)
    except (click.ClickException, OSError, ValueError) as error:
        raise FedamdError(f"--node-config: {error}") from None
    return {"watchdog": True} | config


def _leave_on_signals() -> None:
    """SIGTERM and SIGINT end the process through its `with` blocks.

    Flower sends SIGINT to its own process when the SuperLink does not know the node any more; that is no reason to end.
    Only `sigwaitinfo` says who sent a signal, so a thread waits for it.
    """

    def leave(number: int, frame: object) -> None:  # noqa: ARG001
        raise SystemExit(128 + number)

    def wait() -> None:
        while True:
            if signal.sigwaitinfo({signal.SIGINT}).si_pid != own:
                os.kill(own, signal.SIGTERM)

    own = os.getpid()
    signal.signal(signal.SIGTERM, leave)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    threading.Thread(target=wait, daemon=True).start()


def _show_log() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for noisy in ("httpx", "flwr"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
