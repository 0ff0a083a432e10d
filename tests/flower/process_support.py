"""A real federation for tests: a SuperLink and clients on 127.0.0.1, and how to look at their processes."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from flower_support import RAW

from fedamd.flower.app.settings import flatten
from fedamd.flower.local.launch import SuperLink, settings_for, up_in
from fedamd.flower.local.loopback import Loopback
from fedamd.runs.folder import MODEL, SUMMARY, Folder
from fedamd.runs.model_file import read_vector

CLIENTS = 2


def raw_config(algorithm: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return (
        RAW
        | {"clients": CLIENTS, "cohort": CLIENTS, "rounds": 2, "partition": {"name": "iid"}}
        | changes
        | {"algorithm": {"steps": 2, "small_batch": 16} | algorithm}
    )


class Runner:
    """Runs on a federation that is up."""

    def __init__(self, up: Loopback, out: Path) -> None:
        self.up = up
        self.out = out

    def settings(self, raw: dict[str, Any], **federation: Any) -> dict[str, Any]:
        own = {"folder": str(self.out), "deadline": 120, "start_wait": 120} | federation
        return settings_for(self.up.folder, flatten(raw | {"federation": own}))

    def link(self) -> SuperLink:
        return up_in(self.up.folder)

    def wait_for_round(self, t: int) -> None:
        """Until the line of round t is in the metrics."""
        self._wait(lambda: len(Folder(self.out).metrics()) >= t + 2)

    def wait_for_the_end(self) -> None:
        self._wait(lambda: (self.out / SUMMARY).exists())

    def model(self) -> torch.Tensor:
        return read_vector(self.out / MODEL)

    def records(self) -> list[dict[str, Any]]:
        return Folder.open(self.out).metrics()

    def _wait(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + 300
        while not done():
            assert time.monotonic() < end, "\n".join(p.read_text() for p in (self.up.folder / "logs").iterdir())
            time.sleep(0.2)


def workers_of(up: Loopback, client: int) -> list[int]:
    """The processes forked by the fork server of this client, children of a child of its node."""
    servers = children(up.nodes[client].pid)
    return [worker for server in servers for worker in children(server)]


def children(pid: int) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def listening(pids: list[int]) -> list[str]:
    """The TCP ports and named sockets on which any of these processes can be spoken to."""
    inodes = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(entry))
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.append(fields[1])
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if f"socket:[{fields[6]}]" in inodes and len(fields) > 7:
            found.append(fields[7])
    return found


def command_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""
