"""Builds the native library, where there is a C++ compiler.

The code is compiled for the CPU at hand (`-march=native`), and the library carries in its name a fingerprint of that
CPU, the sources and the flags. A library that was built elsewhere, or from older sources, thus has another name and is
never loaded. This file imports neither torch nor fedamd: setup.py runs it before either is installed.
"""

import hashlib
import os
import platform
import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent
SOURCE = FOLDER / "kernels" / "native.cpp"
FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-pthread",
)


class BuildError(Exception):
    """There is no library, and the message says why."""


def compiler() -> str | None:
    """The C++ compiler: what CXX names, or the first of the usual ones that is installed."""
    candidates = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    return next((found for found in map(shutil.which, candidates) if found), None)


def library_name() -> str:
    """The library's file name for this CPU, these sources and these flags."""
    digest = hashlib.sha256("\n".join([*FLAGS, _cpu()]).encode())
    for source in sorted(SOURCE.parent.glob("*.*")):
        digest.update(source.read_bytes())
    return f"_native-{digest.hexdigest()[:16]}.so"


def build(folder: Path = FOLDER, extra_flags: tuple[str, ...] = ()) -> Path:
    """Compiles the library into `folder`, in the place of any older one."""
    command = compiler()
    if command is None:
        raise BuildError("there is no C++ compiler (c++, g++ or clang++; or name one in the variable CXX)")
    library = folder / library_name()
    unfinished = library.with_suffix(f".{os.getpid()}.tmp")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            [command, *FLAGS, *extra_flags, "-shared", "-fPIC", str(SOURCE), "-o", str(unfinished)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BuildError(f"{command} failed:\n{done.stderr[-2000:]}")
        for older in folder.glob("_native-*.so"):
            older.unlink()
        unfinished.rename(library)
    finally:
        unfinished.unlink(missing_ok=True)
    return library


def _cpu() -> str:
    """What `-march=native` looks at: the features of the CPU, where Linux lists them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    features = next((line for line in lines if line.lower().startswith(("flags", "features"))), platform.processor())
    return f"{platform.system()} {platform.machine()} {' '.join(sorted(features.split()))}"
