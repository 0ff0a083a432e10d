"""The versions a client keeps on its disk."""

import sqlite3
from pathlib import Path

import pytest
import torch

from fedamd.errors import FedamdError
from fedamd.flower.app.memory import LostVersion, Memory, StaleInstruction


def vector(value: float) -> dict[str, torch.Tensor]:
    return {"v": torch.full((3,), value)}


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "new" / "folder", client=2, run="a")


def test_nothing_is_held_at_first(memory: Memory) -> None:
    assert memory.read(0) == {}
    assert memory.numbers() == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_was_written_is_read_bit_by_bit(memory: Memory, dtype: torch.dtype) -> None:
    held = {"v": torch.tensor([1 / 3, -0.0, 1e-30], dtype=dtype), "c": torch.tensor([7.0], dtype=dtype)}
    memory.write(5, held, accepted=0, durable=0)
    found = memory.read(5)
    assert found.keys() == held.keys()
    assert all(torch.equal(found[name], held[name]) and found[name].dtype == dtype for name in held)


def test_the_accepted_the_durable_and_the_new_version_are_kept(memory: Memory) -> None:
    memory.write(1, vector(1), accepted=0, durable=0)
    memory.write(2, vector(2), accepted=1, durable=0)
    memory.write(3, vector(3), accepted=1, durable=1)  # the reply of 2 was lost, and a checkpoint has 1
    assert memory.numbers() == [1, 3]
    memory.write(4, vector(4), accepted=3, durable=1)
    assert memory.numbers() == [1, 3, 4]


def test_the_version_of_the_checkpoint_before_is_kept_too(memory: Memory) -> None:
    """Checkpoints have versions 1, 2 and 4; each may be damaged when the server starts again."""
    memory.write(1, vector(1), accepted=0, durable=0)
    memory.write(2, vector(2), accepted=1, durable=1)
    memory.write(3, vector(3), accepted=2, durable=2)
    memory.write(4, vector(4), accepted=3, durable=2)
    assert memory.numbers() == [1, 2, 3, 4]
    memory.write(5, vector(5), accepted=4, durable=4)
    assert memory.numbers() == [2, 4, 5]
    memory.write(6, vector(6), accepted=2, durable=2)  # the server has gone back
    assert torch.equal(memory.read(2)["v"], vector(2)["v"])


@pytest.mark.parametrize("column", ["vector", "dtype", "name", "checksum"])
def test_a_version_that_is_not_as_it_was_written_is_lost(memory: Memory, tmp_path: Path, column: str) -> None:
    memory.write(1, {"v": torch.zeros(3), "w": torch.ones(3)}, accepted=0, durable=0)
    with sqlite3.connect(tmp_path / "new" / "folder" / "client-2.sqlite") as file:
        file.execute(f"UPDATE vectors SET {column} = 'float16' WHERE name = 'v'")
    with pytest.raises(LostVersion, match="damaged"):
        memory.read(1)


def test_a_file_whose_names_are_not_text_is_refused_in_words(memory: Memory, tmp_path: Path) -> None:
    memory.write(1, vector(1), accepted=0, durable=0)
    path = tmp_path / "new" / "folder" / "client-2.sqlite"
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE vectors", b"CREATE TABLE v\xa0ctors"))
    with pytest.raises(FedamdError, match="cannot use"):
        memory.numbers()


def test_a_vector_that_is_gone_is_noticed(memory: Memory, tmp_path: Path) -> None:
    memory.write(1, {"v": torch.zeros(3), "w": torch.ones(3)}, accepted=0, durable=0)
    with sqlite3.connect(tmp_path / "new" / "folder" / "client-2.sqlite") as file:
        file.execute("DELETE FROM vectors WHERE name = 'v'")
    with pytest.raises(LostVersion, match="damaged"):
        memory.read(1)


def test_a_file_of_before_there_were_checksums_is_read_and_gone_on_with(memory: Memory, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "new" / "folder" / "client-2.sqlite") as file:
        file.execute("CREATE TABLE held (run TEXT, number INTEGER, name TEXT, dtype TEXT, vector BLOB)")
        for number in (1, 2):
            content = torch.full((3,), float(number)).numpy().tobytes()
            file.execute("INSERT INTO held VALUES ('a', ?, 'v', 'float32', ?)", (number, content))
            file.execute("INSERT INTO held VALUES ('a', ?, '', '', x'')", (number,))
    assert memory.numbers() == [1, 2]
    assert torch.equal(memory.read(2)["v"], vector(2)["v"])
    with pytest.raises(StaleInstruction):
        memory.refuse_stale(2)
    memory.write(3, vector(3), accepted=2, durable=2)
    assert memory.numbers() == [2, 3]
    with pytest.raises(LostVersion):
        memory.read(1)


def test_a_version_that_holds_nothing_is_a_version(memory: Memory) -> None:
    memory.write(3, {}, accepted=0, durable=0)
    assert memory.read(3) == {}


@pytest.mark.parametrize("number", [7, 6])
def test_an_instruction_that_is_not_the_newest_changes_nothing(memory: Memory, number: int) -> None:
    memory.write(7, vector(7), accepted=0, durable=0)
    with pytest.raises(StaleInstruction):
        memory.refuse_stale(number)
    with pytest.raises(StaleInstruction):
        memory.write(number, vector(0), accepted=0, durable=0)
    assert torch.equal(memory.read(7)["v"], vector(7)["v"])


def test_a_version_that_is_gone_is_a_loss_and_not_zeros(memory: Memory) -> None:
    memory.write(7, vector(7), accepted=0, durable=0)
    with pytest.raises(LostVersion, match="version 6"):
        memory.read(6)


def test_a_write_that_fails_halfway_leaves_everything_as_it_was(memory: Memory) -> None:
    """The row of the second vector cannot be made: by then the old version is deleted, in the transaction."""
    memory.write(1, vector(1), accepted=0, durable=0)
    with pytest.raises(UnicodeEncodeError):
        memory.write(2, {"v": torch.zeros(3), "w\ud800": torch.zeros(3)}, accepted=0, durable=0)
    assert memory.numbers() == [1]
    assert torch.equal(memory.read(1)["v"], vector(1)["v"])


def test_runs_and_clients_do_not_see_each_other(tmp_path: Path) -> None:
    Memory(tmp_path, 0, "a").write(9, vector(9), accepted=0, durable=0)
    assert Memory(tmp_path, 1, "a").numbers() == []
    other = Memory(tmp_path, 0, "b")
    other.write(1, vector(1), accepted=0, durable=0)
    assert Memory(tmp_path, 0, "a").numbers() == [9]


def test_a_folder_that_cannot_be_used_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FedamdError, match="cannot create"):
        Memory(tmp_path / "file", 0, "a")
    (tmp_path / "client-0.sqlite").write_text("no database, this is")
    with pytest.raises(FedamdError, match=r"client-0\.sqlite"):
        Memory(tmp_path, 0, "a").numbers()
