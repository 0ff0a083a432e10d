"""Makes the cases and judges them. Runs in a process that has the shim."""

import hashlib
import os
import random
import shutil
import sqlite3
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from crash import disk, shim
from crash.workloads import REFUSED, WORKLOADS, Workload
from fedamd.errors import FedamdWarning
from fedamd.runs.verify import verify

Told = dict[str, Any]


class Patience:
    """How long all workloads may take together; each has an equal share of what is left."""

    seconds = 3600.0

    def share(self, workloads: int) -> Callable[[], bool]:
        """Whether the time of one of so many workloads is over."""
        end = time.monotonic() + self.seconds / workloads
        return lambda: time.monotonic() > end


PATIENCE = Patience()


def chosen(only: str | None) -> dict[str, Workload]:
    return {name: work for name, work in WORKLOADS.items() if only in (None, name)}


@dataclass
class Judge:
    """Holds what is left against the truth, and counts."""

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def __call__(self, case: str, act: Callable[[], Any], left: Callable[[], Any], truth: Any) -> None:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                act()
                same = left() == truth
                noted = any(issubclass(one.category, FedamdWarning) for one in said)
                ending = "identical, from the checkpoint before" if noted else "identical"
                self._count(ending if same else "wrong", None if same else f"{case}: another result")
            except (*REFUSED, OSError) as error:
                self._count("refused in words")
                self.refusals.append(f"{case}: {error}")
            except Exception:
                self._count("traceback", f"{case}: {traceback.format_exc()[-1500:]}")

    def _count(self, outcome: str, complaint: str | None = None) -> None:
        self.outcomes[outcome] += 1
        self.wrong += [complaint] if complaint else []


def record(work: Workload, folder: Path, journal: Path) -> list[disk.Op]:
    """Begin the work with every change of a file written down; replayed, that must be what is on the disk."""
    library = shim.preloaded()
    folder.mkdir(parents=True)
    descriptor = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    library.shim_watch(str(folder).encode(), descriptor)
    try:
        work.begin(folder, library.shim_mark)
    finally:
        library.shim_stop()
        os.close(descriptor)
    ops = disk.read_journal(journal.read_bytes(), str(folder))
    replayed = disk.Disk()
    for op in ops:
        replayed.apply(op)
    if replayed.seen() != disk.read(folder):
        found, real = replayed.seen(), disk.read(folder)
        differ = [path for path in found | real if found.get(path, b"?") != real.get(path, b"?")]
        raise RuntimeError(f"the shim has missed something: replayed, these files are not the real ones: {differ}")
    return ops


def states(scratch: Path, limit: int, seed: int, only: str | None) -> Told:
    """Every moment of every workload, and what a power cut could leave then."""
    works = chosen(only)
    told: Told = {"wrong": [], "workloads": {}}
    for name, work in works.items():
        whole, folder = scratch / f"{name}-whole", scratch / "state"
        ops = record(work, whole, scratch / "journal")
        truth = work.left(whole)
        judge, chance, seen, share = Judge(), random.Random(f"{seed} {name}"), set[bytes](), limit // len(works)
        moment, over = disk.Disk(), PATIENCE.share(len(works))
        for number, op in enumerate(ops):
            moment.apply(op)
            if over():
                break
            for tree in moment.states(chance, max(3, 2 * share // len(ops))):
                fingerprint = hashlib.sha256(repr(sorted(tree.items())).encode()).digest()
                if fingerprint in seen or len(seen) >= share * (number + 1) / len(ops):
                    continue
                seen.add(fingerprint)
                disk.build(tree, folder)
                case = f"{name}, after operation {number} ({op.kind} {op.path})"
                if work.acknowledged:
                    judge(case, partial(work.go_on, folder), partial(_has, work, folder, moment.marks), True)
                else:
                    judge(case, partial(work.go_on, folder), partial(work.left, folder), truth)
                shutil.rmtree(folder)
        told["wrong"] += judge.wrong
        told["workloads"][name] = {
            "operations": len(ops),
            "states": len(seen),
            **judge.outcomes,
            "refusals": judge.refusals[:5],
        }
    told["states"] = sum(one["states"] for one in told["workloads"].values())
    return told


def _has(work: Workload, folder: Path, marks: int) -> bool:
    """Whether the last entry that was promised is there, or a later one."""
    return max(work.left(folder), default=0) >= marks


def faults(scratch: Path, limit: int, seed: int, only: str | None) -> Told:
    """Every changing call fails once in every way (at most `limit` of them); then the work goes on without faults."""
    library = shim.preloaded()
    told: Told = {"wrong": [], "workloads": {}, "faults": 0}
    works = chosen(only)
    for name, work in works.items():
        whole, folder = scratch / f"{name}-whole", scratch / "fault"
        whole.mkdir()
        library.shim_watch(str(whole).encode(), -1)
        work.begin(whole, _nothing)
        calls = library.shim_count()
        library.shim_stop()
        truth = True if work.acknowledged else work.left(whole)
        during, after = Judge(), Judge()
        every = [(kind, at) for kind in shim.KINDS for at in range(1, calls + 1)]
        random.Random(f"{seed} {name}").shuffle(every)
        over = PATIENCE.share(len(works))
        for kind, at in every[: limit // len(works)]:
            if over():
                break
            folder.mkdir()
            case = f"{name}, fault {kind} at call {at}"
            during(case, partial(_begin_failing, work, folder, kind, at), _true, True)
            left = _true if work.acknowledged else partial(work.left, folder)
            after(f"{case}, then going on", partial(work.go_on, folder), left, truth)
            shutil.rmtree(folder)
        told["wrong"] += during.wrong + after.wrong
        told["faults"] += sum(during.outcomes.values())
        told["workloads"][name] = {"calls": calls, "during": dict(during.outcomes), "after": dict(after.outcomes)}
    return told


def _begin_failing(work: Workload, folder: Path, kind: int, at: int) -> None:
    library = shim.preloaded()
    library.shim_watch(str(folder).encode(), -1)
    library.shim_fail(at, kind)
    try:
        work.begin(folder, _nothing)
    finally:
        library.shim_stop()


def _nothing(_: int) -> None:
    pass


def _true() -> bool:
    return True


def mutations(scratch: Path, limit: int, seed: int, only: str | None) -> Told:
    """Bits flipped, files cut, lengthened, emptied, deleted and exchanged; a half-done run and a finished one."""
    told: Told = {"wrong": [], "workloads": {}}
    works = {name: work for name, work in chosen(only).items() if name in ("run", "disk", "memory")}
    for name, work in works.items():
        whole = scratch / f"{name}-whole"
        whole.mkdir()
        work.begin(whole, _nothing)
        _settle(whole)
        (inside,) = whole.iterdir()
        truth = True if work.acknowledged else work.left(whole)
        files = sorted(path for path in inside.iterdir() if not path.name.endswith("-shm"))
        chance = random.Random(f"{seed} {name} mutations")
        judge, over, number = Judge(), PATIENCE.share(len(works)), 0
        while number < limit // len(works) and not over():
            number += 1
            folder = scratch / "mutated"
            shutil.copytree(whole, folder)
            path = folder / inside.name / chance.choice(files).name
            how = _mutate(path, chance, files)
            case = f"{name}, mutation {number}: {path.name} {how}"
            if work.acknowledged:  # what is still there must be what was written
                judge(case, partial(work.go_on, folder), _true, True)
            else:
                judge.outcomes["found by verify"] += not _fine(folder / inside.name)
                judge(case, partial(work.go_on, folder), partial(work.left, folder), truth)
            shutil.rmtree(folder)
        told["wrong"] += judge.wrong
        told["workloads"][name] = {"mutations": number, **judge.outcomes}
    told["mutations"] = sum(one["mutations"] for one in told["workloads"].values())
    return told


def _settle(folder: Path) -> None:
    """What SQLite has in its log goes into its file, as when a process ends."""
    for path in folder.rglob("*.sqlite"):
        sqlite3.connect(path).close()


def _fine(folder: Path) -> bool:
    try:
        return verify(folder).fine
    except REFUSED:
        return False


def _mutate(path: Path, chance: random.Random, files: list[Path]) -> str:
    content = bytearray(path.read_bytes())
    how = chance.choice(("bit", "bit", "bit", "bit", "cut", "byte", "delete", "empty", "longer", "exchange", "zeros"))
    at = chance.randrange(max(1, len(content)))
    if how == "bit" and content:
        content[at] ^= 1 << chance.randrange(8)
    elif how == "byte" and content:
        content[at] = chance.randrange(256)
    elif how == "cut":
        del content[at:]
    elif how == "empty":
        content.clear()
    elif how == "longer":
        content += bytes(chance.randrange(256) for _ in range(chance.randint(1, 40)))
    elif how == "zeros":
        content[at : at + 16] = bytes(len(content[at : at + 16]))
    elif how == "exchange":
        content = bytearray(chance.choice(files).read_bytes())
    path.write_bytes(content)
    if how == "delete":
        path.unlink()
    return f"{how} at {at}"
