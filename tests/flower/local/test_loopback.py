"""How the processes of a federation on this machine are started, without starting any."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedamd.flower.local import processes
from fedamd.flower.local.loopback import Loopback


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Mapping[str, str]]]:
    """Commands and environments of what would have been started."""
    every: list[tuple[list[str], Mapping[str, str]]] = []

    def start(command: list[str], env: Mapping[str, str], log: Path) -> Any:  # noqa: ARG001
        every.append((command, env))
        return SimpleNamespace(pid=0, poll=lambda: None)

    monkeypatch.setattr(processes, "start", start)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return every


@pytest.mark.parametrize(("clients", "threads"), [(1, "8"), (3, "2"), (20, "1")])
def test_clients_share_the_processors(
    started: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clients: int, threads: str
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    Loopback(tmp_path, clients).start_client(0)
    assert started[0][1]["OMP_NUM_THREADS"] == threads


def test_what_the_user_has_set_stays(started: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    Loopback(tmp_path, 20).start_client(0)
    assert started[0][1]["OMP_NUM_THREADS"] == "5"


def test_what_has_ended_is_told_and_started_again(started: list[Any], tmp_path: Path) -> None:
    up = Loopback(tmp_path, 2)
    up.start_client(0)
    up.start_client(1)
    assert up.revive() == []
    up.nodes[1].poll = lambda: 1  # type: ignore[method-assign]
    (told,) = up.revive()
    assert told.startswith("client 1 has ended; see ")
    assert len(started) == 3
    assert "partition-id=1" in started[2][0][-1]


def test_clients_keep_what_they_hold_where_they_are_told_to(started: list[Any], tmp_path: Path) -> None:
    Loopback(tmp_path, 1, state=tmp_path / "beside").start_client(0)
    assert f'state-dir="{tmp_path / "beside"}"' in started[0][0][-1]
