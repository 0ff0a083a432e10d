"""Refuses what cannot fit into this machine's memory, before any of it is asked for."""

import os
from pathlib import Path

from fedamd.errors import FedamdError

_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def refuse_what_cannot_fit(what: str, numbers: int, remedy: str, bytes_each: int = 8) -> None:
    """Refuse so many numbers (float64 unless told) where they alone would take more than the memory there is."""
    needed, there_is = bytes_each * numbers, host_memory()
    if there_is is not None and needed > there_is:
        raise FedamdError(
            f"{what} need {needed // 10**9:,} GB, and this machine has {there_is / 1e9:,.0f} GB; {remedy}"
        )


def host_memory() -> int | None:
    """Bytes of memory that this process may have, where the system says: the machine's, or its container's."""
    try:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
    try:
        return min(machine, int(_CONTAINER.read_text()))
    except (OSError, ValueError):  # there is no container, or it says "max"
        return machine
