"""What the page of some runs says: summary, curves, comparison, who took part, who owns what, settings."""

import json
from collections.abc import Sequence
from typing import Any

from fedamd.campaigns.compare import TARGET
from fedamd.report.clients import client_bars, client_tables
from fedamd.report.comparison import common, comparison_table, tally
from fedamd.report.curves import AXES, MEASURES, Curve, draw_curves, groups
from fedamd.report.page import Bars, Curves, Facts, Format, Section, Text
from fedamd.report.stored import StoredRun
from fedamd.runs.config import to_toml

_UNANSWERED = {"missing": "no reply", "rejected": "rejected"}


def page_title(runs: Sequence[StoredRun]) -> str:
    """What was run on what."""
    methods = list(dict.fromkeys(run.config.algorithm.name for run in runs))
    data = " and ".join(dict.fromkeys(run.config.data.name for run in runs))
    return f"{methods[0] if len(methods) == 1 else f'{len(methods)} methods'} on {data}"


def page_subtitle(runs: Sequence[StoredRun]) -> str:
    """The problem in a line."""
    configs = [run.config for run in runs]
    parts = (
        common(f"{config.clients} clients, {config.cohort} in a round" for config in configs),
        common(f"partition {config.partition.name}" for config in configs),
        common(f"model {config.model.name}" for config in configs),
    )
    return " · ".join(part for part in parts if part)


def page_status(runs: Sequence[StoredRun]) -> str:
    """How far the runs are."""
    running = [run for run in runs if run.status == "running"]
    if running:
        run = running[-1]
        name = "" if len(runs) == 1 else f"{run.config.algorithm.name}, "
        return f"{name}round {len(run.rounds)} of {run.config.rounds}"
    return tally([run.status for run in runs])


def page_sections(runs: Sequence[StoredRun], rebuild: bool = True) -> list[Section]:
    """All sections; those that need the data set to be rebuilt only where that is wanted."""
    target = next((run.config.target_accuracy for run in runs if run.config.target_accuracy), TARGET)
    sections: list[Section] = [summary_facts(runs), curve_section(draw_curves(runs), target)]
    if len(groups(runs)) > 1:
        sections.append(comparison_table(runs, target))
    sections += [*client_tables(runs), *role_bars(runs)]
    if rebuild:
        sections += client_bars(runs)
    return [*sections, *settings(runs)]


def summary_facts(runs: Sequence[StoredRun]) -> Facts:
    """The numbers to see first."""
    accuracies = [(r.accuracy, run) for run in runs for r in run.rounds if r.accuracy is not None]
    best = max(accuracies, key=lambda pair: pair[0], default=None)
    names = {id(run): label for label, members in groups(runs).items() for run in members}
    facts = [
        ("runs", str(len(runs))),
        ("rounds", common(str(len(run.rounds)) for run in runs) or f"up to {max(len(run.rounds) for run in runs)}"),
        ("best accuracy", f"{100 * best[0]:.2f}%" if best else ""),
        ("reached by", names[id(best[1])] if best and len(names) > 1 else ""),
        ("test loss", _latest(runs[0], "test_loss") if len(runs) == 1 else ""),
        ("seeds", ", ".join(str(seed) for seed in sorted({run.config.seed for run in runs}))),
        ("computing time", f"{sum(r.seconds for run in runs for r in run.records):.1f} s"),
        ("begun", _begun(runs)),
    ]
    return Facts(title="", facts=[(name, value) for name, value in facts if value])


def curve_section(curves: Sequence[Curve], target: float) -> Curves:
    """Everything measured, against rounds, gradients and bits."""
    measured = [measure for measure in MEASURES if any(measure in curve.points for curve in curves)]
    seeds = max(len(curve.seeds) for curve in curves)
    band = "Lines are means over seeds, bands reach from the smallest to the largest. " if seeds > 1 else ""
    goal = " The dotted line is the target accuracy." if "accuracy" in measured else ""
    return Curves(
        title="Curves",
        note=f"{band}Costs of the start-up pass are not part of the axes.{goal}",
        axes=[(axis, label, axis) for axis, label in AXES.items()],
        panels=[(measure, MEASURES[measure], _format(measure)) for measure in measured],
        lines=[_line(curve) for curve in curves],
        target={"measure": "accuracy", "value": target},
    )


def role_bars(runs: Sequence[StoredRun]) -> list[Section]:
    """Who did what in every round, for methods whose clients do not all do the same."""
    sections: list[Section] = []
    for label, (run, *_) in groups(runs).items():
        rounds = run.rounds
        roles = list(dict.fromkeys(role for record in rounds for role in record.roles))
        if len(roles) < 2:
            continue
        stacks = [{"label": f"{role}s", "values": [record.roles.get(role, 0) for record in rounds]} for role in roles]
        for key, words in _UNANSWERED.items():
            if any(counts := [getattr(record, key) for record in rounds]):
                stacks.append({"label": words, "values": counts})
        names = f"{', '.join(f'{role}s' for role in roles[:-1])} and {roles[-1]}s".capitalize()
        sections.append(
            Bars(
                title=f"{names} of {label}",
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
    return {"label": curve.title, "diverged": curve.diverged > 0, "points": points}


def _brief(value: float) -> float:
    """Six digits: more than a screen can show."""
    return float(f"{value:.6g}")


def _format(measure: str) -> Format:
    return "percent" if measure == "accuracy" else "number"


def _latest(run: StoredRun, measure: str) -> str:
    values = [value for record in run.records if (value := record.measured(measure)) is not None]
    return f"{values[-1]:.4g}" if values else ""


def _begun(runs: Sequence[StoredRun]) -> str:
    begun = min((run.environment["begun"] for run in runs if "begun" in run.environment), default="")
    return str(begun).partition("T")[0]


def _seeds(runs: Sequence[StoredRun]) -> str:
    numbers = ", ".join(str(run.config.seed) for run in runs)
    return f"seed {numbers}" if len(runs) == 1 else f"seeds {numbers}"
