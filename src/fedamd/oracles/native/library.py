"""Finds and loads the library. Nearly all its functions return null, or a sentence that says what is wrong."""

import ctypes
from functools import cache
from typing import Any

from fedamd.errors import FedamdError
from fedamd.oracles.native import build


@cache
def available() -> str | None:
    """Why the native library cannot be used here; None if it can."""
    library = build.FOLDER / build.library_name()
    if not library.exists():
        others = any(build.FOLDER.glob("_native-*.so"))
        state = "was built for another CPU or from other sources" if others else "is not built"
        return f"its library {state}; `python -m fedamd.oracles.native` builds it (with a C++ compiler)"
    try:
        load()
    except OSError as error:
        return f"its library does not load ({error}); `python -m fedamd.oracles.native` builds it again"
    return None


@cache
def load() -> ctypes.CDLL:
    """The library; whoever calls one of its functions declares it."""
    _keep_freed_memory()
    return ctypes.CDLL(str(build.FOLDER / build.library_name()))


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
