"""Refuses what cannot fit into this machine's memory, before any of it is asked for."""

import os

from fedamd.errors import FedamdError


def refuse_what_cannot_fit(what: str, numbers: int, remedy: str, bytes_each: int = 8) -> None:
    """Refuse so many numbers (float64 unless told) where they alone would take more than the memory there is."""
    needed, there_is = bytes_each * numbers, _memory()
    if there_is is not None and needed > there_is:
        raise FedamdError(
            f"{what} need {needed // 10**9:,} GB, and this machine has {there_is / 1e9:,.0f} GB; {remedy}"
        )


def _memory() -> int | None:
    """Bytes of memory, where the system says."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
