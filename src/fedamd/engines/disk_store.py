"""What clients hold, in an SQLite file: memory does not grow with the number of clients.

Only the vectors written since the last commit are in memory. `commit(t)` makes them durable as the version of t, and
notes in the same transaction that the store has been at t (a mark), with a digest of all it held there. The store keeps
what its last KEPT marks need, so a run can go back to its newest checkpoint, and to the one before should that one be
damaged. `rewind(t)` refuses where the store never was at t, or holds no more what it held there.
"""

import sqlite3
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedamd.engines.vector_rows import COLUMNS, decode, encode
from fedamd.errors import FedamdError
from fedamd.files import sync_folder

FORMAT = 2  # 1 had a table `held` without checksums, and no marks
KEPT = 3  # marks: of the two checkpoints there are, and of the one that is about to replace the older
_TABLES = (
    f"CREATE TABLE vectors (client INTEGER, round INTEGER, name TEXT, {COLUMNS},"
    " PRIMARY KEY (client, round, name)) WITHOUT ROWID",
    "CREATE TABLE marks (round INTEGER PRIMARY KEY, rows INTEGER, digest INTEGER)",
    f"PRAGMA user_version = {FORMAT}",
)
_ADD = "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?, ?, ?)"
_NEWEST = "client = :client AND round = (SELECT max(round) FROM vectors WHERE client = :client)"
_AT = "round = (SELECT max(round) FROM vectors AS other WHERE other.client = vectors.client AND other.round <= :t)"
_REPLACED = (
    "DELETE FROM vectors WHERE client = :client AND round <"
    " (SELECT max(round) FROM vectors WHERE client = :client AND round <= :oldest)"
)


class DiskStore:
    """A `ClientStore` in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: dict[int, dict[str, Tensor]] = {}  # since the last commit
        with self._told():
            self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            weakref.finalize(self, self._file.close)  # by whichever thread collects the garbage
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=FULL")  # a commit is on disk when it returns
            if not self._all("SELECT 1 FROM sqlite_master"):
                self._create()
            (version,) = self._file.execute("PRAGMA user_version").fetchone()
            self._old = version == 0
            if version not in (0, FORMAT):
                raise FedamdError(f"{path} is damaged, or of a newer version of this program: its format is {version}")
        sync_folder(path.parent)

    def read(self, name: str, clients: Sequence[int], like: Tensor) -> Tensor:
        zeros = torch.zeros_like(like)
        return torch.stack([self._held(client).get(name, zeros).to(like) for client in clients])

    def fresh(self, clients: Sequence[int]) -> list[bool]:
        known = "SELECT 1 FROM vectors WHERE client = ? LIMIT 1"
        with self._told():
            return [client not in self._written and not self._all(known, client) for client in clients]

    def write(self, clients: Sequence[int], values: dict[str, Tensor]) -> None:
        for row, client in enumerate(clients):
            new = {name: stack[row].cpu().clone() for name, stack in values.items()}
            self._written[client] = self._held(client) | new

    def commit(self, t: int) -> None:
        rows = [
            (client, t, name, *encode((client, t, name), vector))
            for client, values in self._written.items()
            for name, vector in values.items()
        ]
        with self._told(), self._transaction():
            count, digest = next(iter(self._all("SELECT rows, digest FROM marks ORDER BY round DESC LIMIT 1")), (0, 0))
            for client in self._written:
                replaced = self._all(f"SELECT checksum FROM vectors WHERE {_NEWEST}", {"client": client})
                count, digest = count - len(replaced), reduce(xor, (one for (one,) in replaced), digest)
            self._file.executemany(_ADD, rows)
            count, digest = count + len(rows), reduce(xor, (row[4] for row in rows), digest)
            self._file.execute("INSERT OR REPLACE INTO marks VALUES (?, ?, ?)", (t, count, digest))
            self._forget()
        self._written.clear()

    def rewind(self, t: int | None) -> None:
        with self._told(), self._transaction():
            if t is None:
                for (name,) in self._all("SELECT name FROM sqlite_master WHERE type = 'table'"):
                    self._file.execute(f'DROP TABLE "{name}"')
                self._create()
            elif self._old:
                self._convert(t)
            else:
                self._check(t)
                self._file.execute("DELETE FROM vectors WHERE round > ?", (t,))
                self._file.execute("DELETE FROM marks WHERE round > ?", (t,))
        self._old = False
        self._written.clear()

    def tensors(self) -> dict[str, Tensor]:
        """Nothing: what a checkpoint needs is in the file."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        if tensors:
            raise FedamdError("the checkpoint holds the clients' vectors itself: it was made with another client_store")

    def marks(self) -> list[int]:
        """The moments this store can go back to, if `check` finds nothing wrong; format 1 did not know its own."""
        with self._told():
            return [] if self._old else [t for (t,) in self._all("SELECT round FROM marks ORDER BY round")]

    def check(self) -> None:
        """Read everything; the first thing that is not as it was written is a `FedamdError`."""
        with self._told():
            (verdict,) = self._file.execute("PRAGMA integrity_check").fetchone()
            if verdict != "ok":
                raise FedamdError(f"{self._path} is damaged: {verdict}")
            if not self._old:
                for t in self.marks():
                    self._check(t)
                for client, t, name, *stored in self._file.execute("SELECT * FROM vectors"):
                    decode((client, t, name), *stored)

    # --- inside ---

    def _create(self) -> None:
        for statement in _TABLES:
            self._file.execute(statement)

    def _held(self, client: int) -> dict[str, Tensor]:
        if client in self._written:
            return self._written[client]
        with self._told():
            rows = self._all(f"SELECT * FROM vectors WHERE {_NEWEST}", {"client": client})
            return {name: decode((client, t, name), *stored) for _, t, name, *stored in rows}

    def _forget(self) -> None:
        """Drop the marks that are no longer needed, and what the clients just written held before all others.

        The cost does not grow with the number of clients; a client's last superseded version goes when it next writes.
        """
        kept = self._all("SELECT round FROM marks ORDER BY round DESC LIMIT ?", KEPT)
        oldest = min(t for (t,) in kept)
        self._file.execute("DELETE FROM marks WHERE round < ?", (oldest,))
        self._file.executemany(_REPLACED, [{"client": client, "oldest": oldest} for client in self._written])

    def _check(self, t: int) -> None:
        """Whether the store was at t and still has what it held there; the vectors themselves are checked when read."""
        mark = self._all("SELECT rows, digest FROM marks WHERE round = ?", t)
        if not mark:
            known = ", ".join(str(one) for (one,) in self._all("SELECT round FROM marks ORDER BY round")) or "none"
            raise FedamdError(f"{self._path} was never at t = {t}; it can go back to {known}")
        if mark != [self._digest(t)]:
            raise FedamdError(f"{self._path} is damaged: it no longer holds what was there at t = {t}")

    def _digest(self, t: int) -> tuple[int, int]:
        """How many vectors there are at t, and all their checksums in one."""
        count = digest = 0
        for (one,) in self._file.execute(f"SELECT checksum FROM vectors WHERE {_AT}", {"t": t}):
            if not isinstance(one, int):
                raise FedamdError(f"{self._path} is damaged: a checksum is not a number")
            count, digest = count + 1, digest ^ one
        return count, digest

    def _convert(self, t: int) -> None:
        """From format 1, which did not know its own t: its versions up to t become that of t."""
        old = "SELECT client, name, dtype, vector FROM held WHERE round = (SELECT max(round) FROM held AS other"
        rows = self._all(f"{old} WHERE other.client = held.client AND other.round <= ?)", t)
        self._file.execute("DROP TABLE held")
        self._create()
        for client, name, dtype, content in rows:
            vector = torch.from_numpy(np.frombuffer(content, dtype).copy())
            self._file.execute(_ADD, (client, t, name, *encode((client, t, name), vector)))
        self._file.execute("INSERT INTO marks VALUES (?, ?, ?)", (t, *self._digest(t)))

    def _all(self, statement: str, *values: Any) -> list[Any]:
        return self._file.execute(statement, values[0] if values and isinstance(values[0], dict) else values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._file.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._file.execute("COMMIT")
        except BaseException:
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
            raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What SQLite finds wrong, as a sentence."""
        try:
            yield
        except FedamdError as error:
            text = str(error)
            raise (error if str(self._path) in text else FedamdError(f"{self._path}: {text}")) from None
        except (sqlite3.Error, TypeError, ValueError, OverflowError) as error:
            raise FedamdError(f"cannot use {self._path} as the clients' store: {error}") from None
