"""The versions a client keeps on its disk."""

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
    memory.write(5, held, keep=(0, 0))
    found = memory.read(5)
    assert found.keys() == held.keys()
    assert all(torch.equal(found[name], held[name]) and found[name].dtype == dtype for name in held)


def test_the_accepted_the_durable_and_the_new_version_are_kept(memory: Memory) -> None:
    for number in (1, 2, 3):
        memory.write(number, vector(number), keep=(1, 2))
    memory.write(4, vector(4), keep=(1, 2))
    assert memory.numbers() == [1, 2, 4]
    memory.write(5, vector(5), keep=(4, 2))
    assert memory.numbers() == [2, 4, 5]


def test_a_version_that_holds_nothing_is_a_version(memory: Memory) -> None:
    memory.write(3, {}, keep=(0, 0))
    assert memory.read(3) == {}


@pytest.mark.parametrize("number", [7, 6])
def test_an_instruction_that_is_not_the_newest_changes_nothing(memory: Memory, number: int) -> None:
    memory.write(7, vector(7), keep=(0, 0))
    with pytest.raises(StaleInstruction):
        memory.refuse_stale(number)
    with pytest.raises(StaleInstruction):
        memory.write(number, vector(0), keep=(0, 0))
    assert torch.equal(memory.read(7)["v"], vector(7)["v"])


def test_a_version_that_is_gone_is_a_loss_and_not_zeros(memory: Memory) -> None:
    memory.write(7, vector(7), keep=(0, 0))
    with pytest.raises(LostVersion, match="version 6"):
        memory.read(6)


def test_a_write_that_fails_halfway_leaves_everything_as_it_was(memory: Memory) -> None:
    """The row of the second vector cannot be made: by then the old version is deleted, in the transaction."""
    memory.write(1, vector(1), keep=(0, 0))
    with pytest.raises(UnicodeEncodeError):
        memory.write(2, {"v": torch.zeros(3), "w\ud800": torch.zeros(3)}, keep=(0, 0))
    assert memory.numbers() == [1]
    assert torch.equal(memory.read(1)["v"], vector(1)["v"])


def test_runs_and_clients_do_not_see_each_other(tmp_path: Path) -> None:
    Memory(tmp_path, 0, "a").write(9, vector(9), keep=(0, 0))
    assert Memory(tmp_path, 1, "a").numbers() == []
    other = Memory(tmp_path, 0, "b")
    other.write(1, vector(1), keep=(0, 0))
    assert Memory(tmp_path, 0, "a").numbers() == [9]


def test_a_folder_that_cannot_be_used_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FedamdError, match="cannot create"):
        Memory(tmp_path / "file", 0, "a")
    (tmp_path / "client-0.sqlite").write_text("no database, this is")
    with pytest.raises(FedamdError, match=r"client-0\.sqlite"):
        Memory(tmp_path, 0, "a").numbers()
