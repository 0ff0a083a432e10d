"""Sweeps: a grid over any config keys, in lockstep where the engine can, resumable, with the best point chosen.

Every point of the grid is an ordinary run with a folder of its own, named after its settings. Runs that share data,
model and engine advance together, so that a vector engine plays the clients of all of them in one call.
"""

import csv
import io
import itertools
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedamd.engines.distributed import Ranks
from fedamd.errors import FedamdError
from fedamd.runs import checkpoint
from fedamd.runs.api import deferred_interrupt, engine_for
from fedamd.runs.config import Config, load_config, parse_setting, to_toml
from fedamd.runs.experiment import build_experiment
from fedamd.runs.records import CONFIG, SUMMARY, Folder
from fedamd.runs.rounds import drive
from fedamd.runs.run import Listener, Record, Run

Point = dict[str, Any]  # the keys a sweep varies, and one value of each


@dataclass(frozen=True)
class Grid:
    """Which keys vary over which values; points that differ in `seed` alone are repetitions of one setting."""

    axes: dict[str, list[Any]]

    @classmethod
    def parse(cls, words: Iterable[str]) -> "Grid":
        """From `key=value,value,…` words."""
        axes: dict[str, list[Any]] = {}
        for word in words:
            key, text = word.partition("=")[::2]
            values = [parse_setting(f"{key}={value}")[1] for value in text.split(",") if value.strip()]
            if not key or not values:
                raise FedamdError(f"--grid {word}: expected key=value,value,… as in algorithm.eta_l=0.1,0.03")
            if key in axes:
                raise FedamdError(f"--grid {key} is given twice; put all its values into one")
            axes[key] = values
        if not axes:
            raise FedamdError("a sweep needs at least one --grid key=value,value,…")
        return cls(axes)

    def points(self) -> list[Point]:
        return [dict(zip(self.axes, values, strict=True)) for values in itertools.product(*self.axes.values())]


@dataclass(frozen=True)
class Entry:
    """One setting of the grid: its repetitions over seeds, summarised."""

    point: Point
    statuses: list[str]
    accuracies: list[float]  # final, one for each seed that finished

    @property
    def mean(self) -> float:
        """The mean final accuracy; −∞ where a repetition diverged or has none."""
        complete = all(status == "finished" for status in self.statuses) and len(self.accuracies) == len(self.statuses)
        return statistics.fmean(self.accuracies) if complete else -math.inf


@dataclass(frozen=True)
class Sweep:
    """What a sweep came to."""

    grid: Grid
    entries: list[Entry]
    folder: Path

    @property
    def best(self) -> Entry | None:
        """The setting with the best mean final accuracy, as the paper chooses; None where none finished."""
        best = max(self.entries, key=lambda entry: entry.mean)
        return best if math.isfinite(best.mean) else None


def sweep(
    config: Path | str | Mapping[str, Any] | None,
    grid: Grid,
    folder: Path,
    changes: Mapping[str, Any] | None = None,
    listen: Listener | None = None,
) -> Sweep:
    """Run every point of the grid that is not finished yet, then tell which was best."""
    points = grid.points()
    configs = [load_config(config, dict(changes or {}) | point) for point in points]
    folders = [folder / "runs" / point_name(point) for point in points]
    unfinished = [(c, f) for c, f in zip(configs, folders, strict=True) if not (f / SUMMARY).exists()]
    with deferred_interrupt() as interrupted:
        for group in _lockstep_groups(unfinished):
            if not interrupted():
                _run_group(group, listen, interrupted)
    result = Sweep(grid, _entries(points, folders), folder)
    _write(result, dict(changes or {}), config)
    return result


def point_name(point: Point) -> str:
    """A folder name that says the settings: eta_l=0.03,eta_s=1.0,seed=0."""
    text = ",".join(f"{key.rpartition('.')[2]}={value}" for key, value in point.items())
    return "".join(letter if letter.isalnum() or letter in "=,.+-_" else "_" for letter in text)


def _lockstep_groups(waiting: Sequence[tuple[Config, Path]]) -> list[list[tuple[Config, Path]]]:
    """Runs that one engine can serve together: same data, model, device and precision."""
    groups: dict[str, list[tuple[Config, Path]]] = defaultdict(list)
    for config, folder in waiting:
        same = config.model_dump(
            mode="json", include={"data", "model", "device", "dtype", "engine", "oracle", "micro_batch", "client_store"}
        )
        if config.data.name in ("quadratic", "logistic"):  # their samples depend on the seed and the number of clients
            same |= {"seed": config.seed, "clients": config.clients}
        groups[json.dumps(same)].append((config, folder))
    return list(groups.values())


def _run_group(group: Sequence[tuple[Config, Path]], listen: Listener | None, interrupted: Any) -> None:
    """Drive the runs of one group together, each recording in its own folder."""
    opened = [Folder.open(path) if (path / CONFIG).exists() else Folder.create(path, c) for c, path in group]
    experiments = [build_experiment(config) for config, _ in group]
    runs = [
        Run(one, folder.held() if one.config.client_store == "disk" else None)
        for one, folder in zip(experiments, opened, strict=True)
    ]
    folders = {id(run): folder for run, folder in zip(runs, opened, strict=True)}
    for run in runs:
        folders[id(run)].restore(run)

    def heard(run: Run, record: Record) -> None:
        folders[id(run)].add(run, record)
        if not run.live:
            folders[id(run)].finish(run, run.status)
        if listen:
            listen(run, record)

    drive(runs, engine_for(experiments[0], Ranks()), heard, interrupted)
    for run in runs:
        if run.live:
            folders[id(run)].save(run)


def _entries(points: Sequence[Point], folders: Sequence[Path]) -> list[Entry]:
    """The settings in grid order, seeds gathered."""
    gathered: dict[str, tuple[Point, list[Record]]] = {}
    for point, folder in zip(points, folders, strict=True):
        setting = {key: value for key, value in point.items() if key != "seed"}
        path = folder / SUMMARY
        summary = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"status": "interrupted"}
        gathered.setdefault(json.dumps(setting), (setting, []))[1].append(summary)
    return [
        Entry(
            setting,
            [summary["status"] for summary in summaries],
            [one["final_accuracy"] for one in summaries if one.get("final_accuracy") is not None],
        )
        for setting, summaries in gathered.values()
    ]


def _write(result: Sweep, changes: Point, config: Path | str | Mapping[str, Any] | None) -> None:
    """sweep.json, sweep.csv and, where there is a best point, best.toml."""
    rows = [
        entry.point
        | {
            "status": "/".join(sorted(set(entry.statuses))),
            "seeds": len(entry.statuses),
            "final_accuracy": entry.mean if math.isfinite(entry.mean) else None,
            "spread": statistics.stdev(entry.accuracies) if len(entry.accuracies) > 1 else None,
        }
        for entry in result.entries
    ]
    best = result.best
    checkpoint.write_text(
        result.folder / "sweep.json",
        json.dumps({"best": best.point if best else None, "points": rows}, indent=2) + "\n",
    )
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    checkpoint.write_text(result.folder / "sweep.csv", text.getvalue())
    if best:
        chosen = load_config(config, changes | best.point)
        checkpoint.write_text(result.folder / "best.toml", to_toml(chosen.plain()))
