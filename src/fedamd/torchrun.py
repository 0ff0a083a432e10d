"""What torchrun tells each of the processes it starts; PyTorch itself is not needed to hear it."""

import os

from fedamd.errors import FedamdError


class ProcessLost(FedamdError):
    """Another process of this run is gone."""


def processes() -> int:
    """How many there are; one where torchrun started none."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def processes_here() -> int:
    """How many of them share this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def is_writer() -> bool:
    """Whether this process writes the files and speaks to people: one of them does."""
    return os.environ.get("RANK", "0") == "0"
