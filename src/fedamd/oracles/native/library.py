"""Chooses, finds and loads the library. Nearly all its functions return null, or a sentence that says what is wrong."""

import ctypes
import os
from functools import cache
from typing import Any

from fedamd.errors import FedamdError
from fedamd.oracles.native import build

FORCED = "FEDAMD_CPU"


@cache
def available() -> str | None:
    """Why the native library cannot be used here; None if it can."""
    wanted = candidates()
    if not wanted:
        return "its kernels do not run on a CPU of this kind"
    if level() is None:
        names = " or ".join(candidate.name for candidate in wanted)
        others = any(build.FOLDER.glob("_native-*.so"))
        state = f"was built for other CPUs than {names}, or from other sources" if others else "is not built"
        return f"its library {state}; `python -m fedamd.oracles.native` builds it (with a C++ compiler)"
    try:
        load()
    except OSError as error:
        return f"its library does not load ({error}); `python -m fedamd.oracles.native` builds it again"
    return None


def candidates() -> tuple[build.Level, ...]:
    """The levels that may be loaded, best first: what the CPU can run, or the one that FEDAMD_CPU forces."""
    runnable = build.runnable()
    forced = os.environ.get(FORCED)
    if not forced:
        return runnable
    chosen = tuple(level for level in runnable if level.name == forced)
    if not chosen:
        names = ", ".join(level.name for level in runnable) or "none"
        raise FedamdError(f"{FORCED}={forced}: this CPU cannot run that level; it can run: {names}")
    return chosen


def level() -> build.Level | None:
    """The level whose library is loaded: the best one that is built."""
    return next((level for level in candidates() if (build.FOLDER / build.library_name(level)).exists()), None)


@cache
def load() -> ctypes.CDLL:
    """The library; whoever calls one of its functions declares it."""
    chosen = level()
    if chosen is None:
        raise OSError("there is no library to load")
    _keep_freed_memory()
    return ctypes.CDLL(str(build.FOLDER / build.library_name(chosen)))


def declare(library: ctypes.CDLL, name: str, *arguments: Any) -> None:
    """The types of a function's arguments; it returns a sentence."""
    function = getattr(library, name)
    function.argtypes, function.restype = list(arguments), ctypes.c_char_p


def check(sentence: bytes | None) -> None:
    """Raise what a function says is wrong."""
    if sentence is not None:
        raise FedamdError(f"the native library refuses: {sentence.decode()}")


def _keep_freed_memory() -> None:
    """Models are allocated and freed at every step: glibc would give their pages back and ask for them anew."""
    process = ctypes.CDLL(None)
    if hasattr(process, "mallopt"):
        for option, value in (
            (-1, 1 << 30),
            (-2, 1 << 26),
            (-3, 1 << 25),
        ):  # M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD
            process.mallopt(option, value)
