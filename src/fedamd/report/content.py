"""What the page of some runs says: summary, curves, comparison, who took part, who owns what, settings."""

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fedamd.report.clients import client_bars
from fedamd.report.curves import AXES, BIT_UNIT, GRADIENT_UNIT, MEASURES, Curve, draw_curves, groups
from fedamd.report.page import Bars, Cell, Curves, Facts, Format, Section, Table, Text, cell
from fedamd.report.stored import StoredRun
from fedamd.runs.compare import TARGET, row
from fedamd.runs.config import to_toml
from fedamd.runs.summary import COSTS

_NOT_ROLES = {"round", *MEASURES, "missing", "rejected", *COSTS, "seconds"}  # the other counts of a record are roles
_UNANSWERED = {"missing": "no reply", "rejected": "rejected"}


@dataclass(frozen=True)
class Column:
    """How one number of all methods is shown."""

    name: str
    key: str
    scale: float = 1
    unit: str = ""
    best: Callable[[Sequence[float]], float] | None = None  # which value is highlighted, if any

    def cells(self, methods: Sequence[Sequence[float | None]]) -> list[Cell]:
        """A cell for every method, from the values of its seeds."""
        known = [[self.scale * value for value in seeds if value is not None] for seeds in methods]
        whole = [statistics.fmean(own) for own, seeds in zip(known, methods, strict=True) if len(own) == len(seeds)]
        winner = self.best(whole) if self.best and len(whole) > 1 else None
        return [self._cell(own, len(seeds), winner) for own, seeds in zip(known, methods, strict=True)]

    def _cell(self, values: Sequence[float], seeds: int, winner: float | None) -> Cell:
        """The mean where every seed has a value, else how many of them do."""
        if len(values) < seeds:
            return cell(None, f"{len(values)} of {seeds}" if values else "–")
        mean = statistics.fmean(values)
        spread = f" ± {statistics.stdev(values):.2g}" if seeds > 1 else ""
        return cell(mean, f"{mean:.4g}{spread}{self.unit}", "best" if mean == winner else "")


def page_title(runs: Sequence[StoredRun]) -> str:
    """What was run on what."""
    methods = list(groups(runs))
    data = " and ".join(dict.fromkeys(run.config.data.name for run in runs))
    return f"{methods[0] if len(methods) == 1 else f'{len(methods)} methods'} on {data}"


def page_subtitle(runs: Sequence[StoredRun]) -> str:
    """The problem in a line."""
    configs = [run.config for run in runs]
    parts = (
        _common(f"{config.clients} clients, {config.cohort} in a round" for config in configs),
        _common(f"partition {config.partition.name}" for config in configs),
        _common(f"model {config.model.name}" for config in configs),
    )
    return " · ".join(part for part in parts if part)


def page_status(runs: Sequence[StoredRun]) -> str:
    """How far the runs are."""
    running = [run for run in runs if run.status == "running"]
    if running:
        run = running[-1]
        name = "" if len(runs) == 1 else f"{run.config.algorithm.name}, "
        return f"{name}round {len(run.rounds)} of {run.config.rounds}"
    return _common(run.status for run in runs) or "ended"


def page_sections(runs: Sequence[StoredRun], rebuild: bool = True) -> list[Section]:
    """All sections; those that need the data set to be rebuilt only where that is wanted."""
    target = next((run.config.target_accuracy for run in runs if run.config.target_accuracy), TARGET)
    sections = [summary_facts(runs), curve_section(draw_curves(runs), target), comparison_table(runs, target)]
    sections += role_bars(runs)
    if rebuild:
        sections += client_bars([run.config for run in runs])
    return [*sections, *settings(runs)]


def summary_facts(runs: Sequence[StoredRun]) -> Facts:
    """The numbers to see first."""
    accuracies = [(r["accuracy"], run) for run in runs for r in run.rounds if r["accuracy"] is not None]
    best = max(accuracies, key=lambda pair: pair[0], default=None)
    names = {id(run): label for label, members in groups(runs).items() for run in members}
    facts = [
        ("runs", str(len(runs))),
        ("rounds", _common(str(len(run.rounds)) for run in runs) or f"up to {max(len(run.rounds) for run in runs)}"),
        ("best accuracy", f"{100 * best[0]:.2f}%" if best else "–"),
        ("reached by", names[id(best[1])] if best and len(names) > 1 else ""),
        ("test loss", _latest(runs[0], "test_loss") if len(runs) == 1 else ""),
        ("seeds", ", ".join(str(seed) for seed in sorted({run.config.seed for run in runs}))),
        ("computing time", f"{sum(r['seconds'] for run in runs for r in run.records):.1f} s"),
        ("begun", _begun(runs)),
    ]
    return Facts(title="", facts=[(name, value) for name, value in facts if value])


def curve_section(curves: Sequence[Curve], target: float) -> Curves:
    """Everything measured, against rounds, gradients and bits."""
    measured = [measure for measure in MEASURES if any(measure in curve.points for curve in curves)]
    seeds = max(len(curve.seeds) for curve in curves)
    band = "Lines are means over seeds, bands reach from the smallest to the largest. " if seeds > 1 else ""
    return Curves(
        title="Curves",
        note=f"{band}Costs of the start-up pass are not part of the axes. The dotted line is the target accuracy.",
        axes=[(axis, label, axis) for axis, label in AXES.items()],
        panels=[(measure, MEASURES[measure], _format(measure)) for measure in measured],
        lines=[_line(curve) for curve in curves],
        target={"measure": "accuracy", "value": target},
    )


def comparison_table(runs: Sequence[StoredRun], target: float) -> Table:
    """A row for every method; several seeds as mean ± standard deviation."""
    goal = f"to {100 * target:g}%"
    columns = (
        Column("final accuracy", "final_accuracy", 100, "%", max),
        Column("best accuracy", "best_accuracy", 100, "%", max),
        Column("test loss", "final_test_loss", best=min),
        Column(f"rounds\n{goal}", "rounds_to_target", best=min),
        Column(f"gradients ×10⁵\n{goal}", "gradient_samples_to_target", 1 / GRADIENT_UNIT, best=min),
        Column(f"×32 Mbit\n{goal}", "bits_to_target", 1 / BIT_UNIT, best=min),
        Column("gradients ×10⁵\nin all", "gradient_samples", 1 / GRADIENT_UNIT),
        Column("×32 Mbit\nin all", "bits", 1 / BIT_UNIT),
    )
    told = {
        label: [row(label, run.status, run.records, target) for run in members]
        for label, members in groups(runs).items()
    }
    cells = [column.cells([[one[column.key] for one in rows] for rows in told.values()]) for column in columns]
    heads = [[cell(label), _status([one["status"] for one in rows])] for label, rows in told.items()]
    return Table(
        title="Comparison",
        note="Several seeds: mean ± standard deviation. Best values are highlighted." if len(runs) > len(told) else "",
        columns=["method", "status", *(column.name for column in columns)],
        rows=[head + [column[index] for column in cells] for index, head in enumerate(heads)],
    )


def role_bars(runs: Sequence[StoredRun]) -> list[Section]:
    """Who did what in every round, for methods whose clients do not all do the same."""
    sections: list[Section] = []
    for label, (run, *_) in groups(runs).items():
        rounds = run.rounds
        roles = list(dict.fromkeys(key for record in rounds for key in record if key not in _NOT_ROLES))
        if len(roles) < 2:
            continue
        unanswered = [key for key in _UNANSWERED if any(record[key] for record in rounds)]
        stacks = [
            {"label": _UNANSWERED.get(key, key), "values": [record.get(key, 0) for record in rounds]}
            for key in (*roles, *unanswered)
        ]
        title = f"{' and '.join(roles).capitalize()} of {label}"
        sections.append(
            Bars(
                title=title,
                note=f"Seed {run.config.seed}.",
                stacks=stacks,
                x_label=AXES["rounds"],
                each="round",
                first=1,
            )
        )
    return sections


def settings(runs: Sequence[StoredRun]) -> list[Section]:
    """How to repeat it."""
    configs = [
        (f"{label} ({_seeds(members)})", to_toml(members[0].config.plain())) for label, members in groups(runs).items()
    ]
    places = [(run.path.name, json.dumps(run.environment, indent=2)) for run in runs if run.environment]
    return [Text(title="Configuration", parts=configs), Text(title="Environment", parts=places)]


def _line(curve: Curve) -> dict[str, Any]:
    points = {
        measure: {
            "x": {axis: [_brief(point.x[axis]) for point in line] for axis in AXES},
            "mean": [_brief(point.mean) for point in line],
            "low": [_brief(point.low) for point in line],
            "high": [_brief(point.high) for point in line],
        }
        for measure, line in curve.points.items()
    }
    return {"label": curve.title, "points": points}


def _brief(value: float) -> float:
    """Six digits: more than a screen can show."""
    return float(f"{value:.6g}")


def _format(measure: str) -> Format:
    return "percent" if measure == "accuracy" else "number"


def _status(statuses: Sequence[str]) -> Cell:
    diverged = statuses.count("diverged")
    text = _common(statuses) or ", ".join(f"{statuses.count(one)} {one}" for one in dict.fromkeys(statuses))
    return cell(text, tone="bad" if diverged else "")


def _common(values: Iterable[str]) -> str:
    """What all say; nothing where they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else ""


def _latest(run: StoredRun, measure: str) -> str:
    values = [record[measure] for record in run.records if record[measure] is not None]
    return f"{values[-1]:.4g}" if values else ""


def _begun(runs: Sequence[StoredRun]) -> str:
    begun = min((run.environment["begun"] for run in runs if "begun" in run.environment), default="")
    return begun[:16].replace("T", " ")


def _seeds(runs: Sequence[StoredRun]) -> str:
    numbers = ", ".join(str(run.config.seed) for run in runs)
    return f"seed {numbers}" if len(runs) == 1 else f"seeds {numbers}"
