"""Sweeps: a grid over any config keys, in lockstep where the engine can, resumable, with the best point chosen.

Every point of the grid is an ordinary run with a folder of its own, named after its settings. Runs that share data,
model and engine advance together, so that a vector engine plays the clients of all of them in one call.

runs/…        the runs
grid.json     what the sweep was begun with: another sweep is refused
sweep.json    every setting with the mean and the spread over its seeds, and the best one
sweep.csv     the same as a table
best.toml     a config for the best setting
"""

import csv
import hashlib
import io
import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedamd.campaigns.grid import Grid, Point
from fedamd.engines.factory import ResolvedEngine
from fedamd.errors import FedamdError
from fedamd.files import exclusively, make_folder, read_text, write_text
from fedamd.metrics import Measure, Target
from fedamd.runs.api import new_folder, resolve_engine
from fedamd.runs.callbacks import OfEach, configured
from fedamd.runs.config import Config, load_config, to_toml
from fedamd.runs.experiment import Experiment, build_experiment, data_options, refuse_too_few_clients
from fedamd.runs.folder import CONFIG, SUMMARY, Folder
from fedamd.runs.room import refuse_what_has_no_room
from fedamd.runs.run import Listener, Run
from fedamd.runs.session import FolderSink, Question, Session, Sink, as_sinks, deferred_interrupt
from fedamd.runs.summary import Summary, read_summary, read_target, target_costs, told_target
from fedamd.torchrun import processes

GRID = "grid.json"


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep is to do: the points of its grid, a config and a folder for each."""

    grid: Grid
    folder: Path
    configs: list[Config]

    @property
    def folders(self) -> list[Path]:
        return [self.folder / "runs" / name for name in self.grid.names()]

    def waiting(self) -> list[tuple[Config, Path]]:
        """The points whose runs have not ended yet."""
        together = zip(self.configs, self.folders, strict=True)
        return [(config, path) for config, path in together if _summary(path)["status"] == "interrupted"]


@dataclass(frozen=True)
class SweepEntry:
    """One setting of the grid: its repetitions over seeds, summarised."""

    point: Point  # without the seed
    config: Config  # of the first repetition
    statuses: list[str]
    values: list[float]  # what the sweep compares, for each repetition that has it
    reached: list[dict[str, float] | None]  # what each had spent when it reached the target, if it did

    @property
    def status(self) -> str:
        """In one word where all repetitions ended alike."""
        return "/".join(sorted(set(self.statuses)))

    @property
    def mean(self) -> float | None:
        """Over the repetitions; None where one of them diverged, is not finished or has no value."""
        complete = set(self.statuses) <= {"finished", "stopped"} and len(self.values) == len(self.statuses)
        return statistics.fmean(self.values) if complete else None

    @property
    def to_target(self) -> dict[str, float | None]:
        """Costs of reaching the target, means over the repetitions; None where one of them never did."""
        costs = [target_costs(one) for one in self.reached]
        return {f"{cost}_to_target": _mean([one[cost] for one in costs]) for cost in costs[0]}


@dataclass(frozen=True)
class Sweep:
    """What a sweep came to."""

    grid: Grid
    folder: Path
    measure: Measure  # what its runs are judged by, at their end
    target: Target | None  # what they are to reach
    entries: list[SweepEntry]

    @property
    def ranked(self) -> list[SweepEntry]:
        """The settings with a mean, best first; in the order of the grid where they are equal."""
        return sorted(
            (entry for entry in self.entries if entry.mean is not None),
            key=lambda entry: -self.measure.score(entry.mean or 0.0),
        )

    @property
    def best(self) -> SweepEntry | None:
        """The setting with the best mean; None where none has one."""
        return next(iter(self.ranked), None)

    @property
    def interrupted(self) -> bool:
        return any("interrupted" in entry.statuses for entry in self.entries)


def plan(
    config: Path | str | Mapping[str, Any] | None, grid: Grid, folder: Path, changes: Mapping[str, Any] | None = None
) -> SweepPlan:
    """A sweep of this grid over this config; every point must be a config that can run."""
    return SweepPlan(grid, folder, [load_config(config, dict(changes or {}) | point) for point in grid.points()])


def sweep(planned: SweepPlan, listen: Listener | Sink | None = None, objects: Mapping[str, Any] | None = None) -> Sweep:
    """Run every point that has not ended yet, then tell which was best.

    `objects` are the data set and the model of all points, where they are not named in the config.
    """
    if processes() > 1:
        raise FedamdError("a sweep runs in one process: start it without torchrun")
    for config in planned.configs if not objects else ():
        refuse_too_few_clients(config)  # before there is a folder
    make_folder(planned.folder)
    with exclusively(planned.folder), deferred_interrupt() as interrupted:
        _claim(planned)
        for group in _lockstep_groups(planned.waiting()):
            if not interrupted():
                _run_group(group, objects or {}, as_sinks(listen), interrupted)
        result = _result(planned)
        _write(result)
    return result


def _claim(planned: SweepPlan) -> None:
    """Write down what the sweep is; a folder in which another one was begun is refused."""
    plain = [json.loads(json.dumps(config.plain())) for config in planned.configs]
    digest = hashlib.sha256(json.dumps(plain).encode()).hexdigest()
    path = planned.folder / GRID
    if not path.exists():
        if any(planned.folder.iterdir()):
            raise FedamdError(f"{planned.folder} is not empty and holds no sweep: choose another --out")
        own = {"grid": planned.grid.axes, "first": plain[0], "digest": digest}
        write_text(path, json.dumps(own, indent=2) + "\n")
        return
    try:
        begun = json.loads(read_text(path))
        different = _difference(begun["grid"], planned.grid.axes) or _difference(begun["first"], plain[0])
        if not different and begun["digest"] != digest:
            different = "other settings"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FedamdError(f"cannot read {path}: {error!r}") from None
    if different:
        raise FedamdError(
            f"{planned.folder} was begun as another sweep ({different}): "
            "continue it with the command it was begun with, or choose another --out"
        )


def _difference(begun: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> str | None:
    """The first key in which two settings differ, in words."""
    for key in (*begun, *now):
        before, after = begun.get(key), now.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            if inner := _difference(before, after, f"{prefix}{key}."):
                return inner
        elif before != after:
            return f"{prefix}{key} was {json.dumps(before)} and is {json.dumps(after)}"
    return None


def _lockstep_groups(waiting: Sequence[tuple[Config, Path]]) -> list[list[tuple[Config, Path]]]:
    """Runs that one engine can serve together: same data, model, device and precision."""
    groups: dict[str, list[tuple[Config, Path]]] = defaultdict(list)
    for config, folder in waiting:
        same = config.model_dump(
            mode="json", include={"data", "model", "device", "dtype", "engine", "oracle", "micro_batch", "precision"}
        )
        made_with = None if config.data.given else data_options(config)
        groups[json.dumps([same, made_with], default=str)].append((config, folder))
    return list(groups.values())


def _run_group(
    group: Sequence[tuple[Config, Path]], objects: Mapping[str, Any], sinks: Sequence[Sink], interrupted: Question
) -> None:
    """Drive the runs of one group together, each recording in its own folder."""
    experiments = [(build_experiment(_begun(path) or config, **objects), path) for config, path in group]
    refuse_what_has_no_room([experiment for experiment, _ in experiments])
    resolved = resolve_engine(experiments[0][0])
    callbacks = [
        configured(experiment.config, path) for experiment, path in experiments
    ]  # what is wrong with one leaves no folder
    folders = dict(_opened(experiment, path, resolved) for experiment, path in experiments)
    steered = OfEach(dict(zip(folders, callbacks, strict=True)))
    Session(list(folders), resolved.engine, [FolderSink(folders), steered, *sinks], interrupted=interrupted).run()


def open_run(config: Config, path: Path, resolve: Callable[[Experiment], ResolvedEngine]) -> tuple[Run, Folder]:
    """The run of one point, new or begun; `resolve` finds the engine that it will run on."""
    experiment = build_experiment(_begun(path) or config)
    return _opened(experiment, path, resolve(experiment))


def _opened(experiment: Experiment, path: Path, resolved: ResolvedEngine) -> tuple[Run, Folder]:
    folder = Folder.open(path) if (path / CONFIG).exists() else new_folder(path, experiment, resolved)
    return Run(experiment, folder.client_store() if experiment.config.client_store == "disk" else None), folder


def _begun(path: Path) -> Config | None:
    """The config of the run in this folder, if one was begun there."""
    return Folder.open(path).config() if (path / CONFIG).exists() else None


def _summary(folder: Path) -> Summary:
    path = folder / SUMMARY
    if not path.exists():
        return {"status": "interrupted"}
    try:
        return read_summary(path, "status")
    except FedamdError as error:
        raise FedamdError(f"{error}; delete it, and the sweep makes it again") from None


def _result(planned: SweepPlan) -> Sweep:
    """The settings in the order of the grid, seeds gathered."""
    summaries = [_summary(folder) for folder in planned.folders]
    measure = measure_of(summaries)
    gathered: dict[str, SweepEntry] = {}
    for point, config, summary in zip(planned.grid.points(), planned.configs, summaries, strict=True):
        setting = {key: value for key, value in point.items() if key != "seed"}
        entry = gathered.setdefault(json.dumps(setting), SweepEntry(setting, config, [], [], []))
        entry.statuses.append(summary["status"])
        value = summary.get(f"final_{measure.name}")
        entry.values.extend([] if value is None else [value])
        entry.reached.append(summary.get("to_target"))
    target = next(filter(None, map(read_target, summaries)), None)
    return Sweep(planned.grid, planned.folder, measure, target, list(gathered.values()))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None


def measure_of(summaries: Sequence[Summary]) -> Measure:
    """What these runs are judged by; the first says it for all. Earlier versions had accuracy and test loss alone."""
    if told := next((one["measure"] for one in summaries if "measure" in one), None):
        return Measure(**told)
    classified = any(one.get("final_accuracy") is not None for one in summaries)
    return Measure() if classified else Measure("test_loss", higher_is_better=False)


def _write(result: Sweep) -> None:
    """sweep.json, sweep.csv and, where there is a best setting, best.toml."""
    rows = [
        entry.point
        | {
            "status": entry.status,
            "seeds": len(entry.statuses),
            f"final_{result.measure.name}": entry.mean,
            "spread": statistics.stdev(entry.values) if entry.mean is not None and len(entry.values) > 1 else None,
        }
        | (entry.to_target if result.target else {})
        for entry in result.entries
    ]
    best = result.best
    told = {"measure": asdict(result.measure)} | (told_target(result.target) if result.target else {})
    content = told | {"best": best.point if best else None, "points": rows}
    write_text(result.folder / "sweep.json", json.dumps(content, indent=2) + "\n")
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(result.folder / "sweep.csv", text.getvalue())
    if best:
        write_text(result.folder / "best.toml", to_toml(best.config.plain()))
