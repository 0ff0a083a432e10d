"""The clients of a real federation on a page: which are connected, when they were heard of, faults, bytes."""

import time
from collections.abc import Sequence

from fedamd.flower.app.attendance import Presence, read_attendance
from fedamd.report.page import PageSection, Table, TableCell, cell
from fedamd.report.stored import StoredRun

_COLUMNS = ("client", "now", "last heard of", "answers", "faults", "MB down", "MB up", "node")


def federation_tables(runs: Sequence[StoredRun], now: float | None = None) -> list[PageSection]:
    """A table for each run that was, or is, one of a federation."""
    found = [(run, clients) for run in runs if (clients := read_attendance(run.path))]
    return [_table(run, clients, time.time() if now is None else now, len(found) > 1) for run, clients in found]


def _table(run: StoredRun, clients: dict[int, Presence], now: float, several: bool) -> Table:
    connected = sum(one.connected for one in clients.values())
    when = "are connected" if run.status == "running" else "were connected at the end"
    return Table(
        title=f"Federation of {run.path.name}" if several else "Federation",
        note=f"{connected} of {run.config.clients} clients {when}.",
        columns=_COLUMNS,
        rows=[_row(client, one, now) for client, one in clients.items()],
    )


def _row(client: int, one: Presence, now: float) -> list[TableCell]:
    state = cell("silent", tone="warn") if one.silent else cell("connected", tone="good")
    ago = None if one.last_seen is None else now - one.last_seen
    return [
        cell(client),
        state if one.connected else cell("away", tone="bad"),
        cell(ago, None if ago is None else _ago(ago)),
        cell(one.answers),
        cell(one.faults.total(), ", ".join(f"{count} {name}" for name, count in one.faults.items()) or "none"),
        cell(one.bytes_down / 1e6),
        cell(one.bytes_up / 1e6),
        cell(one.node or None),
    ]


def _ago(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 7200 else f"{seconds / 3600:.0f} h ago"
