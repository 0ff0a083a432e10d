"""Finished runs of a leaderboard, one file for each setting: JSON lines, each under the hash of what was declared.

A run that is there is never computed again, on this machine or another. A line says what was declared, the score that
tuning goes by, how the run ended, what its start-up cost; a reported run has its curve too:

    accuracy               at each evaluation;  `evaluated`: after which rounds
    costs, rounds_cost     what a round can cost, [gradient samples, bits up and down], and which of them each did
    seconds, worst_decile, memory    see `details`; lines of before there were such have none
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from fedamd.errors import FedamdError
from fedamd.files import read_text
from fedamd.runs.run import Run
from fedamd.studies.leaderboard.details import details
from fedamd.studies.paper.store import machine, per_round

Line = dict[str, Any]
LAST = 10  # evaluations whose mean is a run's score


def name_of(declared: Mapping[str, Any]) -> str:
    """Sixteen hex digits that name a declared run."""
    return hashlib.sha256(json.dumps(declared, sort_keys=True).encode()).hexdigest()[:16]


class LeaderboardStore:
    """The runs of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lines: dict[tuple[str, bool], Line] = {}
        for path in sorted(folder.glob("*.jsonl")):
            for number, text in enumerate(read_text(path).splitlines(), start=1):
                self._take(text, f"{path}, line {number}")

    def get(self, declared: Mapping[str, Any], curve: bool = False) -> Line | None:
        """The run declared so, with its curve if asked for."""
        name = name_of(declared)
        return self._lines.get((name, True)) or (None if curve else self._lines.get((name, False)))

    def add(self, setting: str, label: str, declared: Mapping[str, Any], run: Run, curve: bool) -> None:
        """Write down a run that has ended, at once: nothing finished is ever lost."""
        line: Line = {
            "hash": name_of(declared),
            "label": label,
            "seed": declared["seed"],
            "rounds": declared["rounds"],
            "algorithm": declared["algorithm"],
            "status": run.status,
            "score": round(score(run), 5),
            "start_up": [run.start_up.gradient_samples, run.start_up.bits_up + run.start_up.bits_down],
            "machine": machine(run.config),
        }
        if curve:
            line |= _curve(run) | details(run)
        text = json.dumps(line, separators=(",", ":"))
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{setting}.jsonl").open("a", encoding="utf-8") as file:
            file.write(text + "\n")
        self._take(text, setting)

    def _take(self, text: str, where: str) -> None:
        try:
            line = json.loads(text)
            self._lines[line["hash"], "accuracy" in line] = line
            assert {"label", "seed", "rounds", "algorithm", "status", "score", "start_up"} <= line.keys()
        except (json.JSONDecodeError, KeyError, TypeError, AssertionError):
            raise FedamdError(f"{where}: not a finished run of a leaderboard; remove that line") from None


def score(run: Run) -> float:
    """The mean accuracy of the last ten evaluations (of a third of them, in a run too short for ten); 0 if diverged."""
    seen = [record.accuracy for record in run.records if record.round >= 0 and record.accuracy is not None]
    if run.status == "diverged" or not seen:
        return 0.0
    return fmean(seen[-max(1, min(LAST, len(seen) // 3)) :])


def _curve(run: Run) -> Line:
    records = [record for record in run.records if record.round >= 0]
    seen = [(record.round + 1, record.accuracy) for record in records if record.accuracy is not None]
    totals = [(record.gradient_samples, record.bits) for record in records]
    return {
        "accuracy": [round(accuracy, 4) for _, accuracy in seen],
        "evaluated": [rounds for rounds, _ in seen],
        **per_round(totals),
    }
