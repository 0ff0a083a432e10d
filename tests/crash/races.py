"""Several processes at one folder at the same moment: who comes second is refused in words, and the folder is whole."""

import os
import pickle
import random
import shutil
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fedamd
from crash.workloads import CONFIG, REFUSED, compare_begin, compare_left, run_left, sweep_begin, sweep_left
from fedamd.report.write import report
from fedamd.runs.folder import CONFIG as CONFIG_FILE
from fedamd.runs.folder import default_folder
from fedamd.runs.verify import verify

Act = Callable[[Path], object]
FINE, REFUSAL = "fine", "refused in words"


def begin(folder: Path) -> None:
    fedamd.run(CONFIG, out=folder / "run")


def named(folder: Path) -> None:
    """A run without a name of its own."""
    fedamd.run(CONFIG, out=default_folder(fedamd.load_config(CONFIG), folder))


def resume(folder: Path) -> None:
    fedamd.resume(folder / "run", rounds=CONFIG["rounds"])


def look(folder: Path) -> None:
    report([one for one in folder.iterdir() if one.is_dir()] or [folder], folder / f"{os.getpid()}.html")


def check(folder: Path) -> None:
    for one in runs_in(folder):
        verify(one)


def runs_in(folder: Path) -> list[Path]:
    return sorted(config.parent for config in folder.rglob(CONFIG_FILE))


def half_done(folder: Path) -> None:
    fedamd.run(CONFIG, out=folder / "run", rounds=CONFIG["rounds"] // 2)


def nothing(_: Path) -> None:
    pass


@dataclass(frozen=True)
class Race:
    """Who runs against whom, in a folder that was prepared; how many of them must have won; what must be left."""

    racers: Sequence[Act]
    prepare: Act
    left: Callable[[Path], Any]
    winners: tuple[int, int]  # at least, at most


def left_by_run(folder: Path) -> Any:
    return run_left(folder / "run")


def left_by_named(folder: Path) -> Any:
    return [run_left(one) for one in sorted(folder.iterdir()) if one.is_dir()]


RACES = {
    "run": Race([begin] * 4, nothing, left_by_run, (1, 1)),
    "default names": Race([named] * 4, nothing, left_by_named, (4, 4)),
    "resume": Race([resume] * 4, half_done, left_by_run, (1, 4)),
    "run and resume": Race([begin, resume, begin, resume], nothing, left_by_run, (1, 3)),
    "resume, report, verify": Race([resume, look, check, resume, look, check], half_done, left_by_run, (1, 6)),
    "run, report, verify": Race([begin, look, check, look], nothing, left_by_run, (1, 4)),
    "sweep": Race([sweep_begin] * 4, nothing, sweep_left, (1, 4)),
    "sweep, report, verify": Race([sweep_begin, look, check, sweep_begin], nothing, sweep_left, (1, 4)),
    "compare": Race([compare_begin] * 4, nothing, compare_left, (1, 4)),
}


def races(scratch: Path, limit: int, seed: int, only: str | None) -> dict[str, Any]:
    """As many of each race, over all; starts that differ by a little."""
    chosen = {name: race for name, race in RACES.items() if only in (None, name)}
    told: dict[str, Any] = {"wrong": [], "races": {}}
    for name, race in chosen.items():
        whole, count = scratch / "whole", Counter[str]()
        truth = expected(race, whole)
        chance = random.Random(f"{seed} {name}")
        for number in range(max(1, limit // len(chosen))):
            folder = scratch / "race"
            told["wrong"] += [f"{name} {number}: {one}" for one in run_race(race, folder, truth, chance, count)]
            shutil.rmtree(folder)
        shutil.rmtree(whole)
        told["races"][name] = dict(count)
    told["processes"] = sum(sum(one.values()) for one in told["races"].values())
    return told


def run_race(race: Race, folder: Path, truth: Any, chance: random.Random, count: Counter[str]) -> list[str]:
    """What went wrong."""
    folder.mkdir()
    race.prepare(folder)
    endings = _started_together([(act, chance.random() * 0.2) for act in race.racers], folder)
    count.update(ending if ending in (FINE, REFUSAL) else "traceback" for ending in endings)
    wrong = [ending for ending in endings if ending not in (FINE, REFUSAL)]
    least, most = race.winners
    if not least <= endings.count(FINE) <= most:
        wrong.append(f"{endings.count(FINE)} were not refused: {endings}")
    if not _readers_alone(race) and endings[0] != FINE:  # whoever lost to a reader goes on now, as a person would
        _go_on(race, folder)
    if race.left(folder) != truth:
        wrong.append("another result")
    wrong += [f"{one}: {verify(one).wrong}" for one in runs_in(folder) if not verify(one).fine]
    return wrong


def _readers_alone(race: Race) -> bool:
    return all(act in (look, check) for act in race.racers)


def _go_on(race: Race, folder: Path) -> None:
    act = race.racers[0]
    if act is begin and (folder / "run" / CONFIG_FILE).exists():
        act = resume
    if act is not named:
        act(folder)


def expected(race: Race, folder: Path) -> Any:
    """What is left where each comes after the other."""
    folder.mkdir()
    race.prepare(folder)
    for act in race.racers if race.racers[0] is named else race.racers[:1]:
        act(folder)
    return race.left(folder)


def _started_together(racers: Sequence[tuple[Act, float]], folder: Path) -> list[str]:
    """How each of the processes ended."""
    go = time.monotonic() + 0.1
    children = []
    for act, late in racers:
        out, into = os.pipe()
        child = os.fork()
        if not child:
            os.close(out)
            _run_child(act, folder, into, go + late)
        os.close(into)
        children.append((child, out))
    endings = []
    for child, out in children:
        with os.fdopen(out, "rb") as told:
            content = told.read()
        os.waitpid(child, 0)
        endings.append(pickle.loads(content) if content else "died")
    return endings


def _run_child(act: Act, folder: Path, into: int, start: float) -> None:
    try:
        time.sleep(max(0.0, start - time.monotonic()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            act(folder)
        ending = FINE
    except REFUSED:
        ending = REFUSAL
    except BaseException:
        ending = traceback.format_exc()[-1500:]
    os.write(into, pickle.dumps(ending))
    os._exit(0)
