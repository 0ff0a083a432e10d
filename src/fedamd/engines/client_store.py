"""What clients hold between rounds: vectors that never leave a client, kept here because a simulation is all clients.

Two stores of one shape: in memory (a slot for every client that has held something, on the engine's device), and on
disk (SQLite; memory does not grow with the number of clients). Values written since the last checkpoint are the only
ones a disk store has in memory; `flush` makes them durable under the round they belong to.
"""

import sqlite3
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from fedamd.errors import FedamdError
from fedamd.transfer import upload


class ClientStore(Protocol):
    """Vectors by client and name."""

    def read(self, name: str, clients: Sequence[int], like: Tensor) -> Tensor:
        """The (n, d) stack of these clients' vectors, zeros where a client holds none; `like` is a vector (d,)."""
        ...

    def fresh(self, clients: Sequence[int]) -> list[bool]:
        """Which of these clients hold nothing yet."""
        ...

    def write(self, clients: Sequence[int], values: dict[str, Tensor]) -> None:
        """Replace these clients' vectors of these names by the rows of each stack."""
        ...


@runtime_checkable
class InCheckpoint(Protocol):
    """A store whose content is part of every checkpoint."""

    def tensors(self) -> dict[str, Tensor]:
        """Everything, for a checkpoint."""
        ...

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Back to what `tensors` gave."""
        ...


class MemoryStore:
    """In memory, on the device of what is written."""

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}
        self._stacks: dict[str, Tensor] = {}

    def read(self, name: str, clients: Sequence[int], like: Tensor) -> Tensor:
        if name not in self._stacks:
            return like.new_zeros(len(clients), like.numel())
        stack = self._stacks[name]
        slots = [self._slots.get(client, len(stack)) for client in clients]
        known = [slot < len(stack) for slot in slots]  # a client may hold other vectors, but none of this name yet
        rows = upload([slot if slot < len(stack) else 0 for slot in slots], stack.device)
        values = stack.index_select(0, rows)
        if not all(known):
            values = values * upload(known, stack.device).unsqueeze(-1)
        return values

    def fresh(self, clients: Sequence[int]) -> list[bool]:
        return [client not in self._slots for client in clients]

    def write(self, clients: Sequence[int], values: dict[str, Tensor]) -> None:
        for client in clients:
            self._slots.setdefault(client, len(self._slots))
        slots = [self._slots[client] for client in clients]
        for name, stack in values.items():
            self._room_for(name, stack).index_copy_(0, upload(slots, stack.device), stack)

    def _room_for(self, name: str, like: Tensor) -> Tensor:
        """The stack of this name, doubled whenever it is too short, so that growing is cheap on the whole."""
        needed = len(self._slots)
        stack = self._stacks.get(name)
        if stack is None:
            stack = like.new_zeros(needed, like.shape[-1])
        elif len(stack) < needed:
            stack = torch.cat([stack, stack.new_zeros(max(needed - len(stack), len(stack)), stack.shape[-1])])
        self._stacks[name] = stack
        return stack

    def tensors(self) -> dict[str, Tensor]:
        """Everything, for a checkpoint."""
        clients = torch.tensor(list(self._slots), dtype=torch.int64)
        stacks = {name: self._room_for(name, stack)[: len(clients)] for name, stack in self._stacks.items()}
        return {"clients": clients} | stacks

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Back to what `tensors` gave."""
        self._slots = {client: slot for slot, client in enumerate(tensors["clients"].tolist())}
        self._stacks = {name: stack for name, stack in tensors.items() if name != "clients"}


class DiskStore:
    """In an SQLite file: the version of round t is durable once `flush(t)` returns, and versions of later rounds are
    forgotten by `rewind(t)`. So a run that was killed goes on from its checkpoint as if nothing had come after it."""

    def __init__(self, path: Path) -> None:
        self._unflushed: dict[int, dict[str, Tensor]] = {}
        self._renewed: list[int] = []  # clients whose older versions are to be forgotten
        try:
            self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            weakref.finalize(self, self._file.close)  # by whichever thread collects the garbage
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS held (client INTEGER, round INTEGER, name TEXT, dtype TEXT, vector BLOB,"
                " PRIMARY KEY (client, round, name)) WITHOUT ROWID"
            )
        except sqlite3.Error as error:
            raise FedamdError(f"cannot use {path} as the clients' store: {error}") from error

    def read(self, name: str, clients: Sequence[int], like: Tensor) -> Tensor:
        zeros = torch.zeros_like(like)
        return torch.stack([self._one(client).get(name, zeros).to(like) for client in clients])

    def fresh(self, clients: Sequence[int]) -> list[bool]:
        known = "SELECT 1 FROM held WHERE client = ? LIMIT 1"
        return [
            client not in self._unflushed and not self._file.execute(known, (client,)).fetchone() for client in clients
        ]

    def write(self, clients: Sequence[int], values: dict[str, Tensor]) -> None:
        for row, client in enumerate(clients):
            new = {name: stack[row].cpu().clone() for name, stack in values.items()}
            self._unflushed[client] = self._one(client) | new

    def flush(self, t: int) -> None:
        """Make everything written since the last flush durable, as the version of round t."""
        rows = [
            (client, t, name, str(vector.dtype).removeprefix("torch."), vector.numpy().tobytes())
            for client, values in self._unflushed.items()
            for name, vector in values.items()
        ]
        self._file.execute("BEGIN")
        self._file.executemany("INSERT OR REPLACE INTO held VALUES (?, ?, ?, ?, ?)", rows)
        self._file.execute("COMMIT")
        self._renewed += self._unflushed
        self._unflushed.clear()

    def forget_before(self, t: int) -> None:
        """Drop what the versions flushed up to round t have replaced; for after the checkpoint of round t is safe.

        Only clients that were flushed since the last time are looked at, so the cost does not grow with their number.
        What a crash leaves undropped goes when its client is next written.
        """
        self._file.execute("BEGIN")
        self._file.executemany(
            "DELETE FROM held WHERE client = :client AND round <"
            " (SELECT max(round) FROM held WHERE client = :client AND round <= :t)",
            [{"client": client, "t": t} for client in self._renewed],
        )
        self._file.execute("COMMIT")
        self._renewed.clear()

    def rewind(self, t: int) -> None:
        """Forget whatever was written after round t."""
        self._unflushed.clear()
        self._renewed.clear()
        self._file.execute("DELETE FROM held WHERE round > ?", (t,))

    def _one(self, client: int) -> dict[str, Tensor]:
        if client in self._unflushed:
            return self._unflushed[client]
        rows = self._file.execute(
            "SELECT name, dtype, vector FROM held WHERE client = ?"
            " AND round = (SELECT max(round) FROM held WHERE client = ?)",
            (client, client),
        )
        return {name: torch.from_numpy(np.frombuffer(blob, dtype).copy()) for name, dtype, blob in rows}
