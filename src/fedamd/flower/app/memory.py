"""What a client holds between rounds, on the client's own disk, in versions.

Every instruction has a number that grows over the whole life of a run. What a client holds after instruction n is
version n. With each instruction the server says which version it `accepted` last and which is in its last checkpoint
(`durable`). The client works from the accepted version, and keeps that one, the durable one and the new one.

Invariant: at every moment the server's state contains exactly the contributions of the versions it has accepted, and
the client can produce the accepted version, and the one the server would go back to if it were restarted now.
- A reply is lost: the server accepts nothing, so the next instruction starts from the same version again.
- The client restarts: versions are written in one transaction before the reply is sent.
- The server restarts: it names the version of its checkpoint, which was durable, accepted or newest: it still exists.
- An instruction arrives out of order, or was issued before the server restarted: its number is not the newest, and it
  is refused without a change.
"""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedamd.errors import FedamdError
from fedamd.files import make_folder

_TABLE = """CREATE TABLE IF NOT EXISTS held (run TEXT, number INTEGER, name TEXT, dtype TEXT, vector BLOB,
            PRIMARY KEY (run, number, name))"""


class StaleInstruction(Exception):
    """A newer instruction has been worked on already."""


class LostVersion(Exception):
    """The version the server builds on is not here: this client's disk was replaced or restored from an old copy."""


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
        with self._file() as file:
            rows = file.execute(
                "SELECT name, dtype, vector FROM held WHERE run = ? AND number = ?", (self._run, number)
            ).fetchall()
        if not rows:
            raise LostVersion(f"version {number} is not in {self._path}")
        return {name: torch.from_numpy(np.frombuffer(blob, dtype).copy()) for name, dtype, blob in rows if name}

    def write(self, number: int, vectors: Mapping[str, Tensor], keep: tuple[int, ...]) -> None:
        """Add version `number`, and drop all others but those to `keep`; in one transaction."""
        rows = [
            (self._run, number, name, str(vector.dtype).removeprefix("torch."), vector.cpu().numpy().tobytes())
            for name, vector in vectors.items()
        ]
        rows.append((self._run, number, "", "", b""))  # the version exists even where nothing is held yet
        with self._file() as file:
            file.execute("BEGIN IMMEDIATE")
            self._refuse_stale(file, number)
            places = ", ".join("?" * len(keep))
            file.execute(f"DELETE FROM held WHERE run = ? AND number NOT IN ({places})", (self._run, *keep))
            file.executemany("INSERT INTO held VALUES (?, ?, ?, ?, ?)", rows)
            file.execute("COMMIT")

    def refuse_stale(self, number: int) -> None:
        """Raise `StaleInstruction` if a newer one (or this very one) has been worked on."""
        with self._file() as file:
            self._refuse_stale(file, number)

    def numbers(self) -> list[int]:
        """The versions there are."""
        with self._file() as file:
            rows = file.execute("SELECT DISTINCT number FROM held WHERE run = ? ORDER BY number", (self._run,))
            return [number for (number,) in rows]

    def _refuse_stale(self, file: sqlite3.Connection, number: int) -> None:
        (newest,) = file.execute("SELECT max(number) FROM held WHERE run = ?", (self._run,)).fetchone()
        if newest is not None and newest >= number:
            raise StaleInstruction(f"instruction {number} came after instruction {newest}")

    @contextlib.contextmanager
    def _file(self) -> Iterator[sqlite3.Connection]:
        """The open file; leaving without COMMIT leaves it as it was."""
        try:
            file = sqlite3.connect(self._path, timeout=30, isolation_level=None)
            file.execute("PRAGMA synchronous=EXTRA")  # the end of its journal is on disk too: a version stays
            file.execute(_TABLE)
        except sqlite3.Error as error:
            raise FedamdError(f"cannot use {self._path} as the client's memory: {error}") from error
        try:
            yield file
        except sqlite3.Error as error:  # a full disk, or a damaged file
            raise FedamdError(f"cannot use {self._path} as the client's memory: {error}") from error
        finally:
            file.close()
