"""SIGKILL at a random moment of a child that has just been forked, again and again: no folder may be stuck."""

import os
import random
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

from crash.workloads import WORKLOADS


def kills(scratch: Path, limit: int, seed: int, only: str | None) -> dict:
    """Each child begins or goes on, and dies; then the work goes on to its end in peace, three kills a folder."""
    told: dict = {"wrong": [], "workloads": {}, "kills": 0}
    works = {name: work for name, work in WORKLOADS.items() if not work.acknowledged and only in (None, name)}
    for name, work in works.items():
        whole = scratch / f"{name}-whole"
        whole.mkdir()
        started = time.perf_counter()
        work.begin(whole, _nothing)
        span = time.perf_counter() - started
        truth, chance, count = work.left(whole), random.Random(f"{seed} {name}"), Counter()
        while count["kills"] < limit // len(works):
            folder = scratch / "killed"
            folder.mkdir()
            for _ in range(3):
                count["kills"] += _killed(lambda: work.go_on(folder), chance.random() * span)  # noqa: B023
            try:
                work.go_on(folder)
                same = work.left(folder) == truth
            except Exception as error:
                told["wrong"].append(f"{name}: stuck after a kill: {error}")
            else:
                count["identical"] += same
                told["wrong"] += [] if same else [f"{name}: another result after kills"]
            shutil.rmtree(folder)
        told["workloads"][name] = dict(count)
        told["kills"] += count["kills"]
    return told


def _killed(act, seconds: float) -> bool:
    """Whether the child was killed before it had ended."""
    child = os.fork()
    if not child:
        try:
            act()
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _nothing(_: int) -> None:
    pass
