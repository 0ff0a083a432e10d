"""Which node is which client.

Nodes come and go, and their ids are random; a client's number 0 … M−1 is in its SuperNode's own configuration, so every
new node is asked. A number belongs to the first connected node that claims it, unless that one has let a deadline pass
and another has not; with a file of public keys, only to the node that has proved to own the key listed for it. So no
node can speak for another client.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key
from flwr.app import ConfigRecord, Message, RecordDict

from fedamd.errors import FedamdError
from fedamd.files import read_text
from fedamd.flower.app.mailbox import Mailbox
from fedamd.flower.version import HEARTBEAT

log = logging.getLogger("fedamd.flower")
_PATIENCE, _LONGEST = 30.0, 3600.0  # seconds before one that cannot take part is asked again, doubled each time
_SOON = 2.0  # … and before one whose process has died
_MISTAKES = (1, 2)  # Flower's codes for an app that cannot be loaded, and for one that raises


class Sizes(Sequence[int]):
    """n_1 … n_M, each known once its client has been connected; it never changes after that."""

    def __init__(self, clients: int) -> None:
        self._clients = clients
        self._known: dict[int, int] = {}

    def learn(self, client: int, samples: int) -> None:
        self._known.setdefault(client, samples)

    def __len__(self) -> int:
        return self._clients

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> list[int]: ...

    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self[client] for client in range(self._clients)[index]]
        if not 0 <= index < self._clients:
            raise IndexError(index)
        if index not in self._known:
            raise FedamdError(
                f"client {index} has not been connected yet, and this run needs to know how many samples it has: "
                "start it when all clients are connected (federation.start_wait is how long it waits for them)"
            )
        return self._known[index]


@dataclass(frozen=True)
class Unfit:
    """A node that is no client now: why, and when it is asked again; `mistaken` if it is for its operator to mend."""

    why: str
    again: float
    patience: float
    mistaken: bool = False


class Roster:
    """The nodes that are connected now, by client."""

    def __init__(
        self, mailbox: Mailbox, clients: int, keys: Mapping[int, bytes] | None = None, ttl: float = 600
    ) -> None:
        self._mailbox = mailbox
        self._clients = clients
        self._keys = keys
        self._ttl = ttl
        self._asked: dict[str, int] = {}  # message id → node
        self._claims: dict[int, int] = {}  # node → client, in the order in which they came
        self._connected: dict[int, bytes] = {}  # node → public key
        self._disputed: set[int] = set()
        self._unfit: dict[int, Unfit] = {}  # connected nodes that are no clients now
        self.sizes = Sizes(clients)
        self.refused = 0  # nodes that claimed what is not theirs
        self.silent: set[int] = set()  # nodes that let a deadline pass and have not been heard of since

    def refresh(self) -> None:
        """See who is connected, ask newcomers who they are, and read what those asked before have answered."""
        nodes = list(self._mailbox.grid.get_nodes())
        self._connected = {node.node_id: node.public_key for node in nodes}
        self._mailbox.read_whole = {node.node_id for node in nodes if node.heartbeat_interval == HEARTBEAT}
        self._unfit = {node: one for node, one in self._unfit.items() if node in self._connected}
        resting = {node for node, one in self._unfit.items() if one.again > self._mailbox.now()}
        known = self._claims.keys() | set(self._asked.values()) | resting
        new = [node for node in self._connected if node not in known]
        question = RecordDict({"hello": ConfigRecord()})
        for number, node in zip(self._mailbox.send([(n, question) for n in new], "query", self._ttl), new, strict=True):
            if number:
                self._asked[number] = node
        for number, reply in self._mailbox.fetch(list(self._asked)).items():
            self._hear(self._asked.pop(number), reply)
        self._settle_disputes()

    def wait_for(self, clients: int, seconds: float) -> int:
        """Wait until so many clients are connected, or the time is over; how many there are. One that has said why it
        cannot take part is not waited for."""

        def enough() -> bool:
            self.refresh()
            return len(self.present()) + sum(one.mistaken for one in self._unfit.values()) >= clients

        self._mailbox.wait(seconds, enough)
        return len(self.present())

    def present(self) -> dict[int, int]:
        """client → node, for the clients that are connected."""
        present: dict[int, int] = {}
        connected = [node for node in self._claims if node in self._connected]
        for node in sorted(connected, key=lambda node: node in self.silent):  # stable: the first to claim comes first
            present.setdefault(self._claims[node], node)
        return present

    def _hear(self, node: int, reply: Message | None) -> None:
        """Note what a node says it is; one that answers nothing sensible is asked again after a while."""
        if reply is None or not reply.has_content() or reply.metadata.src_node_id != node:
            self._cannot_take_part(node, reply)
            return
        self._unfit.pop(node, None)
        facts: Mapping[str, object] = dict(reply.content.config_records.get("hello", {}))
        client, samples = facts.get("client"), facts.get("samples")
        if not (isinstance(client, int) and isinstance(samples, int) and 0 <= client < self._clients and samples > 0):
            self._refuse(node, f"it says it is client {client!r} with {samples!r} samples")
        elif self._keys is not None and self._keys.get(client) != self._connected.get(node):
            self._refuse(node, f"its key is not the one listed for client {client}")
        else:
            self._claims[node] = client
            self.sizes.learn(client, samples)

    def _cannot_take_part(self, node: int, reply: Message | None) -> None:
        """Said once for each reason. A mistake in a client's set-up does not mend itself; a dead worker is replaced."""
        code, why = (reply.error.code, str(reply.error.reason)) if reply and reply.has_error() else (0, "nonsense")
        before = self._unfit.get(node)
        patience = _PATIENCE if code in _MISTAKES else _SOON
        if before:
            patience = max(patience, min(2 * before.patience, _LONGEST))
        ours = self._keys is None or self._connected.get(node) in self._keys.values()
        self._unfit[node] = Unfit(why, self._mailbox.now() + patience, patience, code in _MISTAKES and ours)
        if before is None or before.why != why:
            log.warning("node %d cannot take part: %s", node, why)

    def _refuse(self, node: int, why: str) -> None:
        self._unfit[node] = Unfit(why, self._mailbox.now() + _PATIENCE, _PATIENCE)
        self.refused += 1
        log.warning("node %d is refused: %s", node, why)

    def _settle_disputes(self) -> None:
        """Count every node that claims a client another connected node has claimed before."""
        rightful = set(self.present().values())
        connected = {node for node in self._claims if node in self._connected}
        pretenders = connected - rightful - self.silent  # a silent one is dead rather than an impostor
        for node in pretenders - self._disputed:
            self._refuse(node, f"another connected node is client {self._claims[node]}")
        self._disputed = pretenders


def read_keys(path: Path) -> dict[int, bytes]:
    """The file of public keys: client → key, in the form in which Flower reports it."""
    try:
        lines = read_text(path).splitlines()
    except FedamdError as error:
        raise FedamdError(f"federation.keys: {error}") from None
    keys: dict[int, bytes] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        client, _, key = line.partition(" ")
        try:
            public = load_ssh_public_key(key.strip().encode())
            keys[int(client)] = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise FedamdError(
                f"federation.keys: {path}, line {number} is not '<client number> <OpenSSH public key>': {error}"
            ) from None
    return keys
