"""How a federation is, in words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flower_support import Federation, config

from fedamd.flower.local.launch import SuperLink
from fedamd.flower.local.status import lines, progress


class Told(SuperLink):
    """What `flwr` would tell."""

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"node-id": "7", "status": "online", "online-at": "2026-01-02 03:04:05Z", "offline-at": ""},
            {"node-id": "8", "status": "offline", "online-at": "x", "offline-at": "2026-01-02 03:05:00Z"},
        ]

    def runs(self) -> list[dict[str, Any]]:
        return [{"run-id": "17", "status": "running"}]


def test_clients_runs_and_the_rounds_of_a_folder(federation: Callable[..., Federation]) -> None:
    one = federation(config(), deadline=100)
    one.grid.faults[1, 2] = lambda *_: None
    one.lead()
    told = lines(Told(None), one.folder)
    assert told[0] == "1 of 2 clients are connected"
    assert told[1] == "  node 7  online since 2026-01-02 03:04:05Z"
    assert told[2] == "  node 8  offline since 2026-01-02 03:05:00Z"
    assert told[3] == "run 17  running"
    assert "finished, 4 rounds done" in told[4]
    assert "faults: 1 missing, 1 overdue; sent: 0.1 MB down" in told[5]
    assert told[8].startswith("  client 2  ")
    assert "1 overdue" in told[8]
    assert "no faults" in told[7]


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    assert progress(tmp_path) == [f"{tmp_path} holds no run yet"]
