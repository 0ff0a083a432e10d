"""Where and how a run was made: versions, commit, hardware, command line; and what of it may change a run's bits."""

import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from fedamd.oracles.native import available, library
from fedamd.registry import user_folders
from fedamd.runs.config import Config

# What a run's bits depend on besides its config: where one of these is another, they may be others.
_OF_THE_BITS = {"torch": "PyTorch", "triton": "Triton", "cuda": "CUDA", "cudnn": "cuDNN"}


def environment(config: Config, command: Sequence[str] | None = None) -> dict[str, Any]:
    """What a reader needs to repeat the run."""
    return {
        "command": list(command or sys.argv),
        "commit": _commit(),
        "python": platform.python_version(),
        "packages": _packages(config),
        "platform": platform.platform(),
        "processor": processor(),
        "processor_threads": torch.get_num_threads(),
        "processor_level": torch.backends.cpu.get_cpu_capability(),
        "native_level": _native_level(),
        "device": _device(config),
        "modules": user_folders(),  # where the modules that the config names were looked for
        "begun": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


def differences(begun: Mapping[str, Any], config: Config) -> list[str]:
    """What is not as it was when the run began, and may change the last bits of its results."""
    told = begun.get("packages")
    before, now = told if isinstance(told, dict) else {}, _packages(config)
    before_and_now = {
        **{title: (before.get(name), now.get(name)) for name, title in _OF_THE_BITS.items()},
        "the processor": (begun.get("processor"), processor()),
        "the processor's level": (begun.get("processor_level"), torch.backends.cpu.get_cpu_capability()),
        "the level of the native library": (begun.get("native_level"), _native_level()),
        "the number of threads": (begun.get("processor_threads"), torch.get_num_threads()),
        "the device": (begun.get("device"), _device(config)),
    }
    return [
        f"{what} was {before} and is {now}"
        for what, (before, now) in before_and_now.items()
        if before is not None and before != now
    ]


@cache
def processor() -> str:
    """What the CPU calls itself; where only Linux says it, from there."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _packages(config: Config) -> dict[str, str]:
    packages = {name: version for name in ("fedamd", "numpy", "flwr", "triton") if (version := _version(name))}
    packages["torch"] = torch.__version__  # which build, too: its metadata may leave that out
    if config.device == "cuda":
        cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
        packages |= {"cuda": str(torch.version.cuda), "cudnn": str(cudnn)}
    return packages


def _native_level() -> str | None:
    """The CPUs that the native library in use was built for."""
    level = None if available() else library.level()
    return level.name if level else None


def _device(config: Config) -> str:
    return torch.cuda.get_device_name() if config.device == "cuda" else platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@cache  # a sweep asks for every run
def _commit() -> str | None:
    """The commit of the source tree this package runs from, with a + where the tree has changes; None if installed."""
    here = Path(__file__).parent
    try:
        output = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return output.stdout.strip() or None
