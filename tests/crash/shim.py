"""The preloaded library of this folder: built with the C compiler, spoken to through ctypes."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
KINDS = (1, 2, 3, 4)  # a full disk from then on, EIO once, half a write, ENOMEM once


def build(folder: Path) -> Path | None:
    """The library; None without a C compiler (or not on Linux)."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        return None
    library = folder / "shim.so"
    flags = ["-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run([compiler, *flags], check=True, capture_output=True)
    return library


def with_shim(library: Path) -> dict[str, str]:
    """The environment of a process that has it."""
    return os.environ | {"LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"}


def preloaded() -> ctypes.CDLL:
    """The library in this process."""
    library = ctypes.CDLL(None)
    library.shim_watch.argtypes = [ctypes.c_char_p, ctypes.c_int]
    library.shim_mark.argtypes = [ctypes.c_long]
    library.shim_fail.argtypes = [ctypes.c_long, ctypes.c_long]
    library.shim_count.restype = ctypes.c_long
    return library
