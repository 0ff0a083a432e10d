"""Flower's own connection to the SuperLink (registration, keys, TLS, heartbeat, retries), and who this node is.

A node has a key: the one it is given, or, on connections without keys, one it makes for itself. That one and the node's
number are kept in the client's folder, so that a client that was killed comes back as the same node, at once: it ends
its last connection itself, where the SuperLink would wait for two minutes of silence.
"""

import contextlib
import fcntl
import json
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

from fedamd.errors import FedamdError
from fedamd.files import sync_file
from fedamd.flower.node import private_flwr
from fedamd.flower.node.private_flwr import Message, ObjectTree
from fedamd.runs.sealed import read_json

log = logging.getLogger("fedamd.node")


@dataclass(frozen=True)
class Options:
    """What a node is started with; the names are those of `flower-supernode`."""

    superlink: str
    insecure: bool = False
    root_certificates: Path | None = None
    private_key: Path | None = None
    node_config: str = ""
    max_retries: int | None = None
    max_wait_time: float | None = None
    trusted_entities: Path | None = None
    metrics_port: int | None = None  # not one of `flower-supernode`


@dataclass(frozen=True)
class Link:
    """What a connected node can do."""

    node_id: int
    receive: Callable[[], tuple[Message, ObjectTree] | None]
    send: Callable[[Message, ObjectTree, float], tuple[set[str], str]]
    get_run: Callable[[int], Any]
    get_fab: Callable[[str, int], Any]
    pull_object: Callable[[int, str], bytes]
    push_object: Callable[[int, str, str, bytes], None]
    confirm: Callable[[int, str], None]
    send_whole: Callable[[Message, float], None]  # not Flower's: a small reply in one request


class NodeIdentity:
    """The node's key and number, in the client's folder; a second process of the same client is refused."""

    def __init__(self, folder: Path, name: str, given: Path | None) -> None:
        self._file = folder / f"{name}.node.json"
        self._lock = _locked(folder / f"{name}.lock")
        kept = _kept(self._file)
        self.node_id: int | None = kept.get("node")
        self.given = given is not None
        self.key = _read_key(given) if given else _own_key(kept.get("key"))

    def became(self, node_id: int) -> None:
        """Remember the number under which the SuperLink knows this node."""
        self.node_id = node_id
        pem = b"" if self.given else self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        new = self._file.with_suffix(".new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump({"node": node_id, "key": pem.decode()}, file)
        sync_file(new)
        new.replace(self._file)


def _kept(file: Path) -> dict[str, Any]:
    """What is known of the node that this client was; a damaged file makes it a new one."""
    try:
        return read_json(file, "node", "key") if file.exists() else {}
    except FedamdError as error:
        log.warning("this client connects as a new node: %s", error)
        return {}


@contextlib.contextmanager
def connected(options: Options, identity: NodeIdentity) -> Iterator[Link]:
    """As long as the block lasts, this node is in the federation."""
    address = _address(options.superlink)
    certificates = _read(options.root_certificates)
    keys = (identity.key, identity.key.public_key())
    interceptors: list[Any] = [
        private_flwr.RuntimeVersionHttpInterceptor(component_name="SuperNode"),
        private_flwr.NodeAuthHttpInterceptor(*keys),
    ]
    retries = private_flwr.make_simple_http_retry_invoker()
    retries.max_tries = None if options.max_retries is None else options.max_retries + 1
    retries.max_time = options.max_wait_time
    with private_flwr.FleetHttpClient.from_server_address(
        address, options.insecure, certificates, interceptors=interceptors
    ) as client:
        private_flwr.beat_patiently()
        _make_way(client, retries.invoke, identity)
        with private_flwr.http_request_response(
            address, options.insecure, certificates, keys, options.max_retries, options.max_wait_time
        ) as callbacks:
            node_id = callbacks[0]
            identity.became(node_id)
            yield Link(*callbacks, partial(retries.invoke, private_flwr.send_whole, client, node_id))


def _make_way(client: private_flwr.FleetHttpClient, invoke: Callable[..., Any], identity: NodeIdentity) -> None:
    """Register a key of the node's own, and end the connection of this client's last life."""
    if not identity.given:
        public = private_flwr.public_key_to_bytes(identity.key.public_key())
        with contextlib.suppress(httpx.HTTPError):  # known already, or refused: activation will say so
            invoke(client.RegisterNode, private_flwr.RegisterNodeFleetRequest(public_key=public))
    if identity.node_id is not None:
        with contextlib.suppress(httpx.HTTPError, RuntimeError):  # it ended by itself, or with the SuperLink
            client.DeactivateNode(private_flwr.DeactivateNodeRequest(node_id=identity.node_id))


def _address(superlink: str) -> str:
    parsed = private_flwr.parse_address(superlink)
    if not parsed:
        raise FedamdError(f"--superlink: '{superlink}' is not an address like fl.example.org:8000")
    host, port, is_v6 = parsed
    return f"[{host}]:{port}" if is_v6 else f"{host}:{port}"


def _read(path: Path | None) -> bytes | None:
    try:
        return path.expanduser().read_bytes() if path else None
    except OSError as error:
        raise FedamdError(f"--root-certificates: cannot read {path}: {error.strerror}") from None


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_ssh_private_key(path.expanduser().read_bytes(), None)
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise FedamdError(f"--auth-supernode-private-key: {path} cannot be read as a private key: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise FedamdError(
            f"--auth-supernode-private-key: {path} is not an ECDSA key; make one with ssh-keygen -t ecdsa -b 256"
        )
    return key


def _own_key(kept: str | None) -> ec.EllipticCurvePrivateKey:
    if kept:
        key = load_pem_private_key(kept.encode(), None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return key
    return ec.generate_private_key(ec.SECP256R1())  # every request is signed: this curve takes a tenth of the time


def _locked(path: Path) -> int:
    """A lock that lasts as long as this process; the descriptor that holds it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError as error:
        raise FedamdError(f"state-dir: cannot write to {path.parent}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise FedamdError(
            f"{path} is taken: this client is running already; another needs a partition-id or a state-dir of its own"
        ) from None
    return lock
