"""What is known of every client, for whoever watches a federation: its node, when it was heard of, faults, bytes.

It is in a file of the run's folder, replaced after every round, and is no part of the run: a server that is started
again counts on from it, and goes without it where it cannot be read or written.
"""

import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE = "attendance.json"


@dataclass
class Presence:
    """One client."""

    node: str = ""  # as a word: its number is larger than what JSON's readers take
    connected: bool = False
    silent: bool = False  # let a deadline pass, and was not heard of since
    last_seen: float | None = None  # when its last reply came, in seconds since 1970
    answers: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    bytes_down: int = 0
    bytes_up: int = 0


class Attendance:
    """All clients by number. `now` is the clock on the wall."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._clients: dict[int, Presence] = {}

    def sent(self, client: int, size: int) -> None:
        self._of(client).bytes_down += size

    def heard(self, client: int, size: int = 0) -> None:
        """A reply came, good or bad."""
        one = self._of(client)
        one.last_seen = self._now()
        one.bytes_up += size

    def answered(self, client: int) -> None:
        """… and it was good."""
        self._of(client).answers += 1

    def fault(self, event: str, clients: Iterable[int]) -> None:
        for client in clients:
            self._of(client).faults[event] += 1

    def settle(self, present: Mapping[int, int], silent: set[int]) -> None:
        """Who is connected now, as which node."""
        for client in self._clients.keys() | present.keys():
            one = self._of(client)
            one.connected = client in present
            if one.connected:
                one.node, one.silent = str(present[client]), present[client] in silent

    def write(self, folder: Path) -> None:
        plain = {str(client): vars(one) for client, one in sorted(self._clients.items())}
        new = folder / f".{FILE}.{os.getpid()}.part"
        with contextlib.suppress(OSError):
            new.write_text(json.dumps(plain) + "\n", encoding="utf-8")
            new.replace(folder / FILE)

    def read(self, folder: Path) -> None:
        """Count on from what a server on this run has written before."""
        self._clients = read_attendance(folder)

    def _of(self, client: int) -> Presence:
        return self._clients.setdefault(client, Presence())


def read_attendance(folder: Path) -> dict[int, Presence]:
    """The clients of the federation whose run is in this folder; none where there is no such file."""
    try:
        plain: dict[str, dict[str, Any]] = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return {int(client): Presence(**one | {"faults": Counter(one["faults"])}) for client, one in plain.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
