"""What torchrun says through the environment."""

import pytest

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
