"""How a federation is: its nodes, its runs, and the run in a folder: its last round and what its clients do."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedamd.flower.app.attendance import Presence, read_attendance
from fedamd.flower.local.launch import SuperLink
from fedamd.runs.folder import METRICS, SUMMARY, Folder


def lines(superlink: SuperLink, run: Path | None) -> list[str]:
    """What there is to say, a line each."""
    nodes, runs = superlink.nodes(), superlink.runs()
    connected = [node for node in nodes if node["status"] == "online"]
    told = [f"{len(connected)} of {len(nodes)} clients are connected"]
    told += [_node(node) for node in nodes]
    told += [f"run {one['run-id']}  {one['status']}" for one in runs[:5]]
    if run is not None:
        told += progress(run)
    return told


def progress(folder: Path) -> list[str]:
    """The run in this folder: where it is, what went wrong, what it has cost."""
    if not (folder / METRICS).exists():
        return [f"{folder} holds no run yet"]
    records = Folder(folder).metrics()
    if not records:
        return [f"{folder}: no round is done yet"]
    last = records[-1]
    age = time.time() - (folder / METRICS).stat().st_mtime
    done = "finished, " if (folder / SUMMARY).exists() else ""
    faults = {"missing": sum(record.missing for record in records)} | _totals([record.extras for record in records])
    measured = "  ".join(f"{name} {value:.4g}" for name, value in last.metrics.items() if value is not None)
    sent = " and ".join(f"{last.extras.get(f'wire_bits_{way}', 0) / 8e6:.1f} MB {way}" for way in ("down", "up"))
    counted = ", ".join(f"{count:g} {name}" for name, count in faults.items() if count) or "none"
    when = f"the last {age:.0f} s ago in {last.seconds:.2f} s"
    return [
        f"{folder}: {done}{last.round + 1} rounds done, {when}  {measured}".rstrip(),
        f"  faults: {counted}; sent: {sent}",
        *[_client(client, one) for client, one in read_attendance(folder).items()],
    ]


def _client(client: int, one: Presence) -> str:
    here = "silent" if one.silent else "connected" if one.connected else "away"
    seen = f"heard of {time.time() - one.last_seen:.0f} s ago" if one.last_seen else "never heard of"
    faults = ", ".join(f"{count} {name}" for name, count in one.faults.items())
    sent = f"{one.bytes_down / 1e6:.1f} MB down and {one.bytes_up / 1e6:.1f} MB up"
    return f"  client {client}  {here}, {seen}, {one.answers} answers, {faults or 'no faults'}, {sent}"


def _totals(extras: list[dict[str, float]]) -> dict[str, float]:
    names = [name for name in extras[-1] if not name.startswith("wire_bits")]
    return {name: sum(one.get(name, 0) for one in extras) for name in names}


def _node(node: Mapping[str, Any]) -> str:
    online = node["status"] == "online"
    since = node["online-at"] if online else node["offline-at"]
    return f"  node {node['node-id']}  {node['status']} since {since or 'it was registered'}"
