"""What clients hold: the two stores behave as one, and the one on disk survives a kill."""

import contextlib
import sqlite3
import subprocess
import sys
import textwrap

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedamd.engines.client_store import DiskStore, MemoryStore
from fedamd.errors import FedamdError
from support import PYTHONPATH

LIKE = torch.zeros(3, dtype=torch.float64)
EVERYONE = range(6)


def rows(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).unsqueeze(-1).repeat(1, 3)


def contents(held) -> dict[str, list[list[float]]]:
    return {name: held.read(name, EVERYONE, LIKE).tolist() for name in ("a", "b")}


writes = st.lists(
    st.tuples(
        st.lists(st.sampled_from(EVERYONE), min_size=1, max_size=6, unique=True),
        st.sampled_from([("a",), ("b",), ("a", "b")]),
        st.booleans(),
    ),
    max_size=8,
)


@settings(deadline=None, max_examples=50)
@given(writes=writes)
def test_memory_and_disk_are_one(writes, tmp_path_factory):
    """Any sequence of writes of any names, flushed now and then, against a dictionary."""
    memory, disk = MemoryStore(), DiskStore(tmp_path_factory.mktemp("held") / "held.sqlite")
    model: dict[tuple[str, int], float] = {}
    for number, (clients, names, flushed) in enumerate(writes, start=1):
        stack = rows(*(100.0 * number + client for client in clients))
        for held in (memory, disk):
            held.write(clients, dict.fromkeys(names, stack))
        model |= {(name, client): 100.0 * number + client for name in names for client in clients}
        if flushed:
            disk.flush(number)
            disk.forget_before(number)
    expected = {name: [[model.get((name, client), 0.0)] * 3 for client in EVERYONE] for name in ("a", "b")}
    fresh = [all((name, client) not in model for name in ("a", "b")) for client in EVERYONE]
    for held in (memory, disk):
        assert contents(held) == expected
        assert held.fresh(EVERYONE) == fresh


def test_a_store_restored_from_its_tensors_goes_on_like_the_first():
    first = MemoryStore()
    first.write([4, 1], {"a": rows(4, 1)})
    second = MemoryStore()
    second.restore({name: tensor.clone() for name, tensor in first.tensors().items()})
    for held in (first, second):
        held.write([1, 0], {"a": rows(10, 20), "b": rows(5, 6)})
    assert contents(second) == contents(first)
    assert second.fresh(EVERYONE) == first.fresh(EVERYONE) == [False, False, True, True, False, True]


def test_every_stack_of_a_checkpoint_has_a_row_for_every_client():
    """Also one of a name that later clients never wrote."""
    held = MemoryStore()
    held.write([3], {"a": rows(1), "b": rows(2)})
    held.write([5, 0], {"a": rows(10, 20)})
    tensors = held.tensors()
    assert tensors["clients"].tolist() == [3, 5, 0]
    assert tensors["a"][:, 0].tolist() == [1, 10, 20]
    assert tensors["b"][:, 0].tolist() == [2, 0, 0]


def test_what_is_read_is_a_copy():
    held = MemoryStore()
    held.write([0], {"a": rows(1)})
    held.read("a", [0], LIKE).zero_()
    assert held.read("a", [0], LIKE).tolist() == [[1, 1, 1]]


def test_rewind_forgets_later_rounds_and_unflushed_writes(tmp_path):
    disk = DiskStore(tmp_path / "held.sqlite")
    disk.write([0, 1], {"a": rows(1, 2)})
    disk.flush(5)
    disk.write([1, 2], {"a": rows(20, 30)})
    disk.flush(10)
    disk.write([0], {"a": rows(100)})
    disk.rewind(5)
    assert [row[0] for row in contents(disk)["a"]] == [1, 2, 0, 0, 0, 0]
    assert disk.fresh([2]) == [True]
    disk.rewind(-2)
    assert disk.fresh(EVERYONE) == [True] * 6


def test_forgetting_keeps_what_the_checkpoint_needs(tmp_path):
    """Versions of rounds 1, 2 and 3 of client 0, of 1 alone of client 1; the checkpoint is that of round 2."""
    disk = DiskStore(tmp_path / "held.sqlite")
    for t in (1, 2, 3):
        disk.write([0] if t > 1 else [0, 1], {"a": rows(t) if t > 1 else rows(t, 7)})
        disk.flush(t)
    disk.forget_before(2)
    assert [row[0] for row in disk.read("a", [0, 1], LIKE).tolist()] == [3, 7]
    disk.rewind(2)
    assert [row[0] for row in disk.read("a", [0, 1], LIKE).tolist()] == [2, 7]
    disk.rewind(1)
    assert disk.fresh([0, 1]) == [True, False]  # round 1 of client 0 had been forgotten


def test_types_survive_the_disk(tmp_path):
    disk = DiskStore(tmp_path / "held.sqlite")
    single = torch.tensor([[0.1, 1e-30, -0.0]], dtype=torch.float32)
    disk.write([0], {"a": single})
    disk.flush(0)
    assert torch.equal(DiskStore(tmp_path / "held.sqlite").read("a", [0], single[0]), single)


def test_a_killed_process_leaves_what_it_flushed(tmp_path):
    """The child flushes round 3, writes on, and kills itself without closing anything."""
    path = tmp_path / "held.sqlite"
    script = f"""
        import os, signal, torch
        from pathlib import Path
        from fedamd.engines.client_store import DiskStore
        held = DiskStore(Path({str(path)!r}))
        held.write([0, 1], {{"a": torch.ones(2, 3, dtype=torch.float64)}})
        held.flush(3)
        held.write([0], {{"a": torch.zeros(1, 3, dtype=torch.float64)}})
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env={"PYTHONPATH": PYTHONPATH}, check=False
    )
    assert killed.returncode == -9
    assert DiskStore(path).read("a", [0, 1, 2], LIKE).tolist() == [[1, 1, 1], [1, 1, 1], [0, 0, 0]]


def test_a_store_nobody_holds_is_closed(tmp_path):
    held = DiskStore(tmp_path / "held.sqlite")
    file = held._file
    del held
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        file.execute("SELECT 1")


def test_a_file_that_is_no_store_is_refused(tmp_path):
    path = tmp_path / "held.sqlite"
    path.write_bytes(b"this is no database at all, but long enough to have a header" * 20)
    with pytest.raises(FedamdError, match=r"cannot use .*held\.sqlite as the clients' store"):
        DiskStore(path)


def test_forgetting_leaves_one_version_of_a_client(tmp_path):
    """Also of one whose old version was left by a process that ended between flushing and forgetting."""
    path = tmp_path / "held.sqlite"

    def versions() -> list[tuple[int, int]]:
        with contextlib.closing(sqlite3.connect(path)) as file:
            return file.execute("SELECT client, round FROM held ORDER BY client, round").fetchall()

    disk = DiskStore(path)
    for t, clients in ((1, [0, 1]), (2, [0])):
        disk.write(clients, {"a": rows(*map(float, clients))})
        disk.flush(t)
    assert versions() == [(0, 1), (0, 2), (1, 1)]
    disk = DiskStore(path)  # the process that flushed round 2 is gone
    disk.write([1], {"a": rows(5.0)})
    disk.flush(3)
    disk.forget_before(3)
    assert versions() == [(0, 1), (0, 2), (1, 3)]
    disk.write([0], {"a": rows(6.0)})
    disk.flush(4)
    disk.forget_before(4)
    assert versions() == [(0, 4), (1, 3)]
