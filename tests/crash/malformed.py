"""Has malformed inputs read, one after the other in this process, and counts how each ended: without a traceback."""

import random
import signal
import sys
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from crash.inputs import KINDS
from fedamd.errors import FedamdError
from fedamd.flower.app.memory import LostVersion, StaleInstruction
from fedamd.flower.app.wire import BadMessage

REFUSED = (FedamdError, BadMessage, LostVersion, StaleInstruction)
PATIENCE = 60  # seconds for one input: longer is a hang
GIGABYTES = 24  # of address space: an input that wants more than that would be an accident elsewhere


class Hung(Exception):
    """An input was not read in time."""


def malformed(scratch: Path, limit: int, seed: int, only: str | None) -> dict[str, Any]:
    """So many inputs in all, as many of each kind."""
    _bounded()
    kinds = {name: kind for name, kind in KINDS.items() if only in (None, name)}
    told: dict[str, Any] = {"wrong": [], "kinds": {}}
    for place, (name, kind) in enumerate(kinds.items()):
        count, folder = Counter[str](), scratch / name
        folder.mkdir()
        for number in range(place, limit, len(kinds)):
            chance = random.Random(f"{seed} {name} {number}")
            count["inputs"] += 1
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    signal.alarm(PATIENCE)
                    kind(chance, folder)
                count["understood"] += 1
            except REFUSED:
                count["refused in words"] += 1
            except Exception:
                count["traceback"] += 1
                told["wrong"].append(f"{name} {number}: {traceback.format_exc()[-1500:]}")
            finally:
                signal.alarm(0)
        told["kinds"][name] = dict(count)
    told["inputs"] = sum(one["inputs"] for one in told["kinds"].values())
    return told


def _bounded() -> None:
    def late(*_: object) -> None:
        raise Hung(f"longer than {PATIENCE} s")

    signal.signal(signal.SIGALRM, late)
    if sys.platform == "linux":
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (GIGABYTES << 30, most))
