"""Builds the native library, where there is a C++ compiler, for one or several levels of CPU.

A level is a set of instructions that whole generations of CPUs share; a CPU can run its own level and all below. A
library carries its level in its name, and a fingerprint of the sources and the flags: one that was built from other
sources has another name and is never loaded. A wheel holds a library for every level, an editable install the one this
CPU is best served with. This file imports neither torch nor fedamd: setup.py runs it before either is installed.
"""

import hashlib
import os
import platform
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

FOLDER = Path(__file__).parent
SOURCE = FOLDER / "kernels" / "native.cpp"
FLAGS = (
    "-std=c++17",
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-pthread",
)


class BuildError(Exception):
    """There is no library, and the message says why."""


@dataclass(frozen=True)
class Level:
    """A set of instructions: its name, how a compiler is told, and what Linux calls the features it needs."""

    name: str
    flags: tuple[str, ...]
    features: frozenset[str]


def _x86(version: int, features: str) -> Level:
    return Level(f"v{version}", (f"-march=x86-64-v{version}",), frozenset(features.split()))


# Best first; each needs the features of those behind it, too.
LEVELS = {
    "x86_64": (
        _x86(4, "avx512f avx512bw avx512cd avx512dq avx512vl"),
        _x86(3, "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"),
        _x86(2, "cx16 lahf_lm popcnt pni ssse3 sse4_1 sse4_2"),
    ),
    "arm64": (Level("neon", ("-march=armv8-a",), frozenset()),),
}


def architecture() -> str:
    """The kind of CPU, by one name on every system."""
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "aarch64": "arm64"}.get(machine, machine)


def levels() -> tuple[Level, ...]:
    """The levels of this kind of CPU, best first; none where the kernels were never tried."""
    return LEVELS.get(architecture(), ())


def runnable() -> tuple[Level, ...]:
    """The levels this very CPU can run, best first."""
    has = cpu_features()
    better = list(takewhile(lambda level: level.features <= has, reversed(levels())))
    return tuple(reversed(better))


def cpu_features() -> frozenset[str]:
    """What the CPU has and the system lets it use, where Linux lists it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    listed = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    return frozenset(listed.partition(":")[2].split())


def compiler() -> str | None:
    """The C++ compiler: what CXX names, or the first of the usual ones that is installed."""
    candidates = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    return next((found for found in map(shutil.which, candidates) if found), None)


def library_name(level: Level) -> str:
    """The library's file name for a level, these sources and these flags."""
    digest = hashlib.sha256("\n".join([*FLAGS, *level.flags]).encode())
    for source in sorted(SOURCE.parent.glob("*.*")):
        digest.update(source.read_bytes())
    return f"_native-{level.name}-{digest.hexdigest()[:16]}.so"


def build_best(folder: Path = FOLDER) -> Path:
    """Compiles the library this CPU is best served with, unless it is there: its name tells what it was built from."""
    if not runnable():
        raise BuildError(f"the kernels know no CPU of this kind ({platform.machine()})")
    library = folder / library_name(runnable()[0])
    return library if library.exists() else build(runnable()[0], folder)


def build_all(folder: Path = FOLDER) -> list[Path]:
    """Compiles the libraries of all levels of this kind of CPU, side by side."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda level: build(level, folder), levels()))


def build(level: Level, folder: Path = FOLDER, extra_flags: tuple[str, ...] = ()) -> Path:
    """Compiles the library of one level into `folder`, in the place of any older one."""
    command = compiler()
    if command is None:
        raise BuildError("there is no C++ compiler (c++, g++ or clang++; or name one in the variable CXX)")
    library = folder / library_name(level)
    unfinished = library.with_suffix(f".{os.getpid()}.tmp")
    folder.mkdir(parents=True, exist_ok=True)
    flags = (*FLAGS, *level.flags, *extra_flags, "-shared", "-fPIC")
    try:
        done = subprocess.run(
            [command, *flags, str(SOURCE), "-o", str(unfinished)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise BuildError(f"{command} failed:\n{done.stderr[-2000:]}")
        for older in folder.glob(f"_native-{level.name}-*.so"):
            older.unlink()
        unfinished.rename(library)
    finally:
        unfinished.unlink(missing_ok=True)
    return library
