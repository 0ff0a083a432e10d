"""What a client holds between rounds, on the client's own disk, in versions.

Every instruction has a number that grows over the whole life of a run. What a client holds after instruction n is
version n. With each instruction the server says which version it `accepted` last and which is in its last checkpoint
(`durable`). The client works from the accepted version, and keeps that one, the durable one, the one that was durable
before it, and the new one.

Invariant: at every moment the server's state contains exactly the contributions of the versions it has accepted, and
the client can produce the accepted version, and the one the server would go back to if it were restarted now.
- A reply is lost: the server accepts nothing, so the next instruction starts from the same version again.
- The client restarts: versions are written in one transaction before the reply is sent.
- The server restarts: it names the version of its checkpoint, which was durable, accepted or newest: it still exists.
- The server's last checkpoint is damaged: it goes back to the one before, whose version was durable before: it exists.
- An instruction arrives out of order, or was issued before the server restarted: its number is not the newest, and it
  is refused without a change.

Every vector carries a checksum, and every version one of all its vectors: one that is not as it was written is lost.
"""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedamd.engines.vector_rows import COLUMNS, checksum, decode, encode
from fedamd.errors import FedamdError
from fedamd.files import make_folder, refuse_special

_TABLES = (
    "CREATE TABLE IF NOT EXISTS versions (run TEXT, number INTEGER, durable INTEGER, checksum INTEGER,"
    " PRIMARY KEY (run, number)) WITHOUT ROWID",
    f"CREATE TABLE IF NOT EXISTS vectors (run TEXT, number INTEGER, name TEXT, {COLUMNS},"
    " PRIMARY KEY (run, number, name)) WITHOUT ROWID",
)
_OLD = "held"  # the table of before there were checksums: (run, number, name, dtype, vector), a name "" for the version
_ADD = "INSERT INTO vectors VALUES (?, ?, ?, ?, ?, ?)"
_BEFORE = "SELECT durable FROM versions WHERE run = ? AND durable != ? ORDER BY number DESC LIMIT 1"


class StaleInstruction(Exception):
    """A newer instruction has been worked on already."""


class LostVersion(Exception):
    """The version the server builds on is not here: this client's disk was replaced, damaged or restored."""


class Memory:
    """The versions of one client of one run."""

    def __init__(self, folder: Path, client: int, run: str) -> None:
        make_folder(folder)
        self._path = folder / f"client-{client}.sqlite"
        self._run = run

    def read(self, number: int) -> dict[str, Tensor]:
        """What was held after instruction `number`; nothing at number 0."""
        if not number:
            return {}
        place = (self._run, number)
        with self._file() as file:
            version = file.execute(
                "SELECT durable, checksum FROM versions WHERE run = ? AND number = ?", place
            ).fetchone()
            rows = file.execute("SELECT * FROM vectors WHERE run = ? AND number = ? ORDER BY name", place).fetchall()
            if version is None:
                return self._read_old(file, number)
        durable, expected = version
        if checksum(*place, durable, *(row[4] for row in rows)) != expected:
            raise LostVersion(f"version {number} in {self._path} is damaged: it is not what was written")
        try:
            return {name: decode((*place, name), *stored) for _, _, name, *stored in rows}
        except FedamdError as error:
            raise LostVersion(f"version {number} in {self._path} is damaged: {error}") from None

    def write(self, number: int, vectors: Mapping[str, Tensor], accepted: int, durable: int) -> None:
        """Add version `number`, and drop those that nobody can ask for any more; in one transaction."""
        rows = [
            (self._run, number, name, *encode((self._run, number, name), vector))
            for name, vector in sorted(vectors.items())
        ]
        with self._file() as file:
            file.execute("BEGIN IMMEDIATE")
            self._refuse_stale(file, number)
            (before,) = file.execute(_BEFORE, (self._run, durable)).fetchone() or (0,)
            for table in ("versions", "vectors", *self._old(file)):
                kept = (self._run, accepted, durable, before)
                file.execute(f"DELETE FROM {table} WHERE run = ? AND number NOT IN (?, ?, ?)", kept)
            file.executemany(_ADD, rows)
            told = checksum(self._run, number, durable, *(row[4] for row in rows))
            file.execute("INSERT INTO versions VALUES (?, ?, ?, ?)", (self._run, number, durable, told))
            file.execute("COMMIT")

    def refuse_stale(self, number: int) -> None:
        """Raise `StaleInstruction` if a newer one (or this very one) has been worked on."""
        with self._file() as file:
            self._refuse_stale(file, number)

    def numbers(self) -> list[int]:
        """The versions there are."""
        with self._file() as file:
            return self._numbers(file)

    # --- inside ---

    def _numbers(self, file: sqlite3.Connection) -> list[int]:
        tables = ("versions", *self._old(file))
        found = (file.execute(f"SELECT DISTINCT number FROM {table} WHERE run = ?", (self._run,)) for table in tables)
        return sorted(number for rows in found for (number,) in rows)

    def _refuse_stale(self, file: sqlite3.Connection, number: int) -> None:
        newest = max(self._numbers(file), default=0)
        if newest >= number:
            raise StaleInstruction(f"instruction {number} came after instruction {newest}")

    def _old(self, file: sqlite3.Connection) -> list[str]:
        """The table of an earlier version, where the file has one."""
        known = file.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name = ?", (_OLD,))
        return [name for (name,) in known]

    def _read_old(self, file: sqlite3.Connection, number: int) -> dict[str, Tensor]:
        rows: list[Any] = []
        for table in self._old(file):
            select = f"SELECT name, dtype, vector FROM {table} WHERE run = ? AND number = ?"
            rows = file.execute(select, (self._run, number)).fetchall()
        if not rows:
            raise LostVersion(f"version {number} is not in {self._path}")
        return {name: torch.from_numpy(np.frombuffer(blob, dtype).copy()) for name, dtype, blob in rows if name}

    @contextlib.contextmanager
    def _file(self) -> Iterator[sqlite3.Connection]:
        """The open file; leaving without COMMIT leaves it as it was."""
        refuse_special(self._path)
        with self._told(), contextlib.closing(sqlite3.connect(self._path, timeout=30, isolation_level=None)) as file:
            file.execute("PRAGMA synchronous=EXTRA")  # the end of its journal is on disk too: a version stays
            for statement in _TABLES:
                file.execute(statement)
            yield file

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """A full disk, or a damaged file, as a sentence."""
        try:
            yield
        except (FedamdError, UnicodeEncodeError):
            raise
        except (sqlite3.Error, TypeError, ValueError, OverflowError) as error:
            raise FedamdError(f"cannot use {self._path} as the client's memory: {error}") from error
