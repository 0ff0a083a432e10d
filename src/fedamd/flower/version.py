"""What is quick here uses parts of Flower that are not public, so it goes with one version of it."""

import importlib.metadata

from fedamd.errors import FedamdError

MADE_FOR = "1.41.0"
HEARTBEAT = 61  # seconds, where Flower's own nodes have 30: by it the server knows one that can read messages whole


def installed() -> str:
    return importlib.metadata.version("flwr")


def is_the_right_one() -> bool:
    """Whether the installed Flower is the one whose private parts are known."""
    return installed() == MADE_FOR


def require() -> None:
    """Refuse any other version, and say what works with it."""
    if not is_the_right_one():
        raise FedamdError(
            f"clients that stay are made for Flower {MADE_FOR}, and {installed()} is installed: "
            f'pip install "flwr=={MADE_FOR}", or start Flower\'s own client, which is slower and takes the same '
            "options: flower-supernode"
        )
