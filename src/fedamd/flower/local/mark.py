"""Which federation is up in a folder: its mark, and the process that looks after it.

The mark is a word in the environment of all its processes; the process is `fedamd federation up` itself, told from a
later one with the same number by when it was started.
"""

import contextlib
import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path

_FILE = "mark"
_PATIENCE = 30.0  # seconds a process has to end what it looks after


@dataclass(frozen=True)
class Mark:
    """What is in the file."""

    word: str
    process: int
    started: str

    @classmethod
    def own(cls, word: str) -> "Mark":
        return cls(word, os.getpid(), _start_of(os.getpid()))

    @property
    def is_kept(self) -> bool:
        """Whether the process that looks after the federation is alive, and another than this one."""
        return self.process != os.getpid() and _start_of(self.process) == self.started != ""

    def write(self, folder: Path) -> None:
        (folder / _FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")

    def remove(self, folder: Path) -> None:
        """Unless another federation has come up in the folder meanwhile."""
        if read(folder) == self:
            (folder / _FILE).unlink(missing_ok=True)

    def dismiss(self) -> None:
        """Ask the process to end its federation and itself; returns when it has gone, or does not go."""
        end = time.monotonic() + _PATIENCE
        with contextlib.suppress(OSError):
            os.kill(self.process, signal.SIGTERM)
        while self.is_kept and time.monotonic() < end:
            time.sleep(0.1)


def read(folder: Path) -> Mark | None:
    """The mark in this folder, if there is one."""
    try:
        return Mark(**json.loads((folder / _FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _start_of(process: int) -> str:
    """When it was started, in the system's own units; "" if there is none (or no /proc)."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
