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

from fedamd.registry import user_folders
from fedamd.runs.config import Config


def environment(config: Config, command: Sequence[str] | None = None) -> dict[str, Any]:
    """What a reader needs to repeat the run."""
    packages = {name: version for name in ("fedamd", "numpy", "flwr") if (version := _version(name))}
    return {
        "command": list(command or sys.argv),
        "commit": _commit(),
        "python": platform.python_version(),
        "packages": packages | {"torch": torch.__version__},  # which build, too: its metadata may leave that out
        "platform": platform.platform(),
        "processor_threads": torch.get_num_threads(),
        "processor_level": torch.backends.cpu.get_cpu_capability(),
        "device": _device(config),
        "modules": user_folders(),  # where the modules that the config names were looked for
        "begun": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


def differences(begun: Mapping[str, Any], config: Config) -> list[str]:
    """What is not as it was when the run began, and may change the last bits of its results."""
    packages = begun.get("packages")
    before_and_now = {
        "PyTorch": (packages.get("torch") if isinstance(packages, dict) else None, torch.__version__),
        "the processor's level": (begun.get("processor_level"), torch.backends.cpu.get_cpu_capability()),
        "the number of threads": (begun.get("processor_threads"), torch.get_num_threads()),
        "the device": (begun.get("device"), _device(config)),
    }
    return [
        f"{what} was {before} and is {now}"
        for what, (before, now) in before_and_now.items()
        if before is not None and before != now
    ]


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
