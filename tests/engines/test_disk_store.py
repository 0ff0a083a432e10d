"""What clients hold, on disk: it survives a kill, goes back to where a checkpoint needs it, and knows damage."""

import contextlib
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from fedamd.engines.disk_store import KEPT, DiskStore
from fedamd.errors import FedamdError
from support import PYTHONPATH

LIKE = torch.zeros(3, dtype=torch.float64)
EVERYONE = range(6)


def rows(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).unsqueeze(-1).repeat(1, 3)


def held(disk: DiskStore) -> list[float]:
    return [row[0] for row in disk.read("a", EVERYONE, LIKE).tolist()]


def versions(path: Path) -> list[tuple[int, int]]:
    with contextlib.closing(sqlite3.connect(path)) as file:
        return file.execute("SELECT client, round FROM vectors ORDER BY client, round").fetchall()


def altered(path: Path, statement: str) -> DiskStore:
    """The store after somebody has been at its file."""
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute(statement)
    return DiskStore(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "held.sqlite"


@pytest.fixture
def disk(path):
    """Client 0 holds 1 at t = 5 and 1 at t = 10; client 1 holds 2 and 20, client 2 nothing and 30."""
    disk = DiskStore(path)
    disk.write([0, 1], {"a": rows(1, 2)})
    disk.commit(5)
    disk.write([1, 2], {"a": rows(20, 30)})
    disk.commit(10)
    return disk


def test_rewind_forgets_later_rounds_and_what_was_not_committed(disk):
    disk.write([0], {"a": rows(100)})
    disk.rewind(5)
    assert held(disk) == [1, 2, 0, 0, 0, 0]
    assert disk.fresh([2]) == [True]
    disk.rewind(None)
    assert disk.fresh(EVERYONE) == [True] * 6


def test_a_store_knows_where_it_was(disk, path):
    """A checkpoint of a moment at which the store never was is not one of this store."""
    for t in (4, 6, 160):
        with pytest.raises(FedamdError, match=rf"held\.sqlite was never at t = {t}; it can go back to 5, 10"):
            disk.rewind(t)
    assert held(disk) == [1, 20, 30, 0, 0, 0]
    assert held(DiskStore(path)) == [1, 20, 30, 0, 0, 0]


def test_the_last_marks_can_be_gone_back_to(path):
    """Rounds 1 … 6 renew client 0, round 1 alone client 1: every kept mark has its own version of both."""
    disk = DiskStore(path)
    for t in range(1, 7):
        disk.write([0] if t > 1 else [0, 1], {"a": rows(t) if t > 1 else rows(t, 7)})
        disk.commit(t)
    assert disk.marks() == [4, 5, 6]
    assert versions(path) == [(0, 4), (0, 5), (0, 6), (1, 1)]
    for t in (6, 5, 4):
        disk.rewind(t)
        assert held(disk)[:2] == [t, 7]
    disk.write([0], {"a": rows(50)})
    disk.commit(5)
    assert held(DiskStore(path))[:2] == [50, 7]
    disk.check()


def test_committing_the_same_moment_again_changes_nothing(disk):
    for _ in range(KEPT + 1):
        disk.commit(10)
    assert disk.marks() == [5, 10]
    disk.rewind(5)
    assert held(disk) == [1, 2, 0, 0, 0, 0]


def test_a_client_leaves_no_more_versions_than_are_needed(path):
    disk = DiskStore(path)
    for t in range(1, 40):
        disk.write([t % 3], {"a": rows(t)})
        disk.commit(t)
    assert len(versions(path)) <= 3 * 2 + KEPT
    assert held(disk)[:3] == [39, 37, 38]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM vectors WHERE client = 1",
        "DELETE FROM vectors WHERE client = 1 AND round = 10",
        "UPDATE vectors SET round = 11 WHERE client = 1 AND round = 10",
        "UPDATE vectors SET checksum = checksum + 1 WHERE client = 1",
        "UPDATE vectors SET checksum = 'word'",
        "UPDATE marks SET digest = 7",
        "UPDATE marks SET rows = 'many'",
        "DROP TABLE marks",
        "PRAGMA user_version = 7",
        "PRAGMA user_version = 0",
    ],
)
def test_what_is_missing_is_found_when_going_back(disk, path, statement):  # noqa: ARG001
    with pytest.raises(FedamdError, match=r"held\.sqlite"):
        altered(path, statement).rewind(10)


@pytest.mark.parametrize("change", ["vector = x'00'", "vector = 'text'", "dtype = 'float32'", "dtype = 'object'"])
def test_what_was_altered_is_found_when_read(disk, path, change):  # noqa: ARG001
    damaged = altered(path, f"UPDATE vectors SET {change} WHERE client = 1")
    damaged.rewind(10)
    with pytest.raises(FedamdError, match=r"held\.sqlite: the vector at 1, 10, a is damaged"):
        damaged.read("a", [1], LIKE)
    with pytest.raises(FedamdError, match="is damaged"):
        damaged.check()


def test_types_survive_the_disk(path):
    disk = DiskStore(path)
    single = torch.tensor([[0.1, 1e-30, -0.0]], dtype=torch.float32)
    disk.write([0], {"a": single})
    disk.commit(0)
    assert torch.equal(DiskStore(path).read("a", [0], single[0]), single)


def test_a_killed_process_leaves_what_it_committed(path):
    """The child commits round 3, writes on, and kills itself without closing anything."""
    script = f"""
        import os, signal, torch
        from pathlib import Path
        from fedamd.engines.disk_store import DiskStore
        held = DiskStore(Path({str(path)!r}))
        held.write([0, 1], {{"a": torch.ones(2, 3, dtype=torch.float64)}})
        held.commit(3)
        held.write([0], {{"a": torch.zeros(1, 3, dtype=torch.float64)}})
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env={"PYTHONPATH": PYTHONPATH}, check=False
    )
    assert killed.returncode == -9
    assert held(DiskStore(path)) == [1, 1, 0, 0, 0, 0]


def test_a_store_nobody_holds_is_closed(path):
    disk = DiskStore(path)
    file = disk._file
    del disk
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        file.execute("SELECT 1")


def test_a_file_that_is_no_store_is_refused(path):
    path.write_bytes(b"this is no database at all, but long enough to have a header" * 20)
    with pytest.raises(FedamdError, match=r"cannot use .*held\.sqlite as the clients' store"):
        DiskStore(path)


def test_a_store_of_format_1_becomes_one_of_format_2(path):
    """Versions of rounds 1 and 3 of client 0, and of 2 of client 1; the checkpoint is that of round 2."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(
            "CREATE TABLE held (client INTEGER, round INTEGER, name TEXT, dtype TEXT, vector BLOB,"
            " PRIMARY KEY (client, round, name)) WITHOUT ROWID"
        )
        for client, t, value in ((0, 1, 1.0), (0, 3, 3.0), (1, 2, 2.0)):
            vector = rows(value).numpy().tobytes()
            file.execute("INSERT INTO held VALUES (?, ?, 'a', 'float64', ?)", (client, t, vector))
    DiskStore(path).rewind(2)
    disk = DiskStore(path)
    disk.rewind(2)
    disk.check()
    assert held(disk)[:3] == [1, 2, 0]
    assert disk.marks() == [2]
