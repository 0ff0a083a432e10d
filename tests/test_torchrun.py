"""What torchrun says through the environment."""

import pytest

from fedamd.oracles.native.oracle import own_cpus, visible_cpus
from fedamd.torchrun import is_writer, processes


def test_without_it_one_process_does_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert processes() == 1
    assert is_writer()


def test_of_several_the_first_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    writers = []
    for rank in "012":
        monkeypatch.setenv("RANK", rank)
        writers.append(is_writer())
    assert processes() == 3
    assert writers == [True, False, False]


def test_processes_share_the_cores_of_their_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert own_cpus() == visible_cpus()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(visible_cpus()))
    assert own_cpus() == 1
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(2 * visible_cpus()))
    assert own_cpus() == 1
