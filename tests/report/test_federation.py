"""The clients of a federation on a run's page."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedamd.flower.app.attendance import FILE, Attendance
from fedamd.report.content import page_sections
from fedamd.report.federation import federation_tables
from fedamd.report.stored import read_runs
from fedamd.report.watch import live_data


def attended(folder: Path) -> None:
    """Client 0 answered 70 s before second 1,100, client 1 answered once and is gone, client 2 let a deadline pass."""
    clock = [1000.0]
    attendance = Attendance(lambda: clock[0])
    attendance.heard(1, 500_000)
    attendance.answered(1)
    clock[0] = 1030.0
    attendance.sent(0, 2_000_000)
    attendance.heard(0, 1_000_000)
    attendance.answered(0)
    attendance.fault("overdue", [2])
    attendance.fault("failed", [1, 1])
    attendance.settle({0: 2**63 + 1, 2: 8}, {8})
    attendance.write(folder)


def test_every_client_has_a_row(trained: Callable[..., Path]) -> None:
    folder = trained("one")
    attended(folder)
    (table,) = federation_tables(read_runs([folder]), now=1100.0)
    assert "2 of 6 clients were connected at the end" in table.note
    rows: list[list[Any]] = [[one.text for one in row] for row in table.rows]
    assert rows[0] == ["0", "connected", "70 s ago", "1", "none", "2", "1", str(2**63 + 1)]
    assert rows[1] == ["1", "away", "100 s ago", "1", "2 failed", "0", "0.5", "–"]
    assert rows[2][:5] == ["2", "silent", "–", "0", "1 overdue"]


def test_it_is_on_the_live_page_and_a_simulation_has_none(trained: Callable[..., Path]) -> None:
    folder = trained("one")
    titles = [section.title for section in page_sections(read_runs([folder]))]
    assert "Federation" not in titles
    attended(folder)
    assert any(section["title"] == "Federation" for section in live_data(folder)["sections"])


def test_a_file_that_cannot_be_read_is_no_reason_to_show_nothing(trained: Callable[..., Path]) -> None:
    folder = trained("one")
    for rubbish in ("{", "[]", '{"0": 1}', '{"0": {"faults": 3}}', '{"0": {"faults": {}, "unknown": 1}}'):
        (folder / FILE).write_text(rubbish)
        assert federation_tables(read_runs([folder])) == []
