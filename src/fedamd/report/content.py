"""What the page of some runs says: what happened, curves, comparison, who took part, who owns what, settings."""

import json
import shlex
from collections.abc import Sequence
from typing import Any

from fedamd.campaigns.compare import TARGET
from fedamd.metrics import Measure, Target
from fedamd.report.clients import client_sections
from fedamd.report.comparison import common, comparison_table, tally
from fedamd.report.curves import AXES, USUAL, Curve, draw_curves, groups, known_axes, known_measures
from fedamd.report.federation import federation_tables
from fedamd.report.page import Bars, Curves, Facts, Format, PageSection, Text
from fedamd.report.stored import StoredRun
from fedamd.report.units import count, data_size, duration
from fedamd.runs.config import to_toml
from fedamd.runs.folder import CONFIG

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


def page_sections(runs: Sequence[StoredRun], target: Target | None = None) -> list[PageSection]:
    """All sections; the target is the runs' own unless told."""
    target = target or next((run.target for run in runs if run.target), Target(Measure(), TARGET))
    sections: list[PageSection] = [summary_facts(runs), repeat(runs), curve_section(draw_curves(runs), target)]
    if len(groups(runs)) > 1:
        sections.append(comparison_table(runs, target))
    return [*sections, *federation_tables(runs), *client_sections(runs), *role_bars(runs), *settings(runs)]


def summary_facts(runs: Sequence[StoredRun]) -> Facts:
    """What happened, first of all: how good, at what cost, and how many clients did not reply."""
    return Facts(title="", facts=[(name, value) for name, value in _facts(runs) if value])


def _facts(runs: Sequence[StoredRun]) -> list[tuple[str, str]]:
    measure, ends = runs[0].measure, [run.rounds[-1] for run in runs if run.rounds]
    values = {
        id(run): [value for record in run.rounds if (value := record.measured(measure.name)) is not None]
        for run in runs
    }
    best = measure.best([value for own in values.values() for value in own])
    names = {id(run): label for label, members in groups(runs).items() for run in members}
    by = next((names[key] for key, own in values.items() if best in own), "") if len(names) > 1 else ""
    final = values[id(runs[0])][-1] if len(runs) == 1 and values[id(runs[0])] else None
    return [
        ("outcome", page_status(runs)),
        ("runs", str(len(runs)) if len(runs) > 1 else ""),
        ("rounds", common(str(len(run.rounds)) for run in runs) or f"up to {max(len(run.rounds) for run in runs)}"),
        (f"final {measure.label}", measure.text(final) if final is not None else ""),
        (f"best {measure.label}", measure.text(best) if best is not None else ""),
        ("reached by", by),
        ("gradient samples", count(sum(record.gradient_samples for record in ends))),
        ("sent up and down", data_size(sum(record.bits for record in ends))),
        ("clients' replies", _replies(runs)),
        ("simulated time", _simulated(runs)),
        ("computing time", duration(sum(record.seconds for run in runs for record in run.records))),
        ("seeds" if len(runs) > 1 else "seed", ", ".join(map(str, sorted({run.config.seed for run in runs})))),
        ("begun", _begun(runs)),
    ]


def _replies(runs: Sequence[StoredRun]) -> str:
    """How many came, and how many clients failed or were rejected."""
    records = [record for run in runs for record in run.rounds]
    came = sum(sum(record.roles.values()) for record in records)
    missing, rejected = (sum(getattr(record, name) for record in records) for name in ("missing", "rejected"))
    if not missing and not rejected:
        return f"all {count(came)}" if came else ""
    told = [f"{missing} never came" if missing else "", f"{rejected} rejected" if rejected else ""]
    return f"{', '.join(part for part in told if part)}, of {count(came + missing + rejected)}"


def _simulated(runs: Sequence[StoredRun]) -> str:
    ends = [run.rounds[-1].costs.get("simulated_seconds") for run in runs if run.rounds]
    return duration(sum(one for one in ends if one is not None)) if any(one is not None for one in ends) else ""


def repeat(runs: Sequence[StoredRun]) -> Text:
    """What plays the same runs again: a command, or a call from Python where objects have to be given."""
    told = [_again(run) for run in runs]
    objects = any(one.startswith("fedamd.run(") for one in told)
    return Text(
        title="How to repeat it",
        note="… stands for the object that was given from Python." if objects else "",
        parts=[(f"{len(told)} commands" if len(told) > 1 else "Command", "\n".join(told))],
        open=len(runs) < 6,
    )


def _again(run: StoredRun) -> str:
    config, path = run.config, str(run.path / CONFIG)
    sections = {"dataset": config.data, "model": config.model, "algorithm": config.algorithm}
    given = [f"{word}=…" for word, section in sections.items() if "given" in section.options]
    return f"fedamd.run({', '.join([json.dumps(path), *given])})" if given else f"fedamd run {shlex.quote(path)}"


def curve_section(curves: Sequence[Curve], target: Target | None, against: Sequence[str] = USUAL) -> Curves:
    """Everything measured, against rounds and costs."""
    measured = known_measures(curves)
    seeds = max(len(curve.seeds) for curve in curves)
    band = "Lines are means over seeds; bands span the smallest to the largest. " if seeds > 1 else ""
    aim = target if target and target.measure.name in measured else None
    goal = f" The dotted line is the target, {aim.text}." if aim else ""
    shown = known_axes(curves, against) or ["rounds"]
    return Curves(
        title="Curves",
        note=f"{band}Axes leave out the cost of the start-up pass.{goal}",
        axes=[(key, AXES[key].label, AXES[key].name, AXES[key].unit) for key in shown],
        panels=[(measure, name, _format(measure)) for measure, name in measured.items()],
        lines=[_line(curve, shown) for curve in curves],
        target={"measure": aim.measure.name, "value": aim.value} if aim else None,
    )


def role_bars(runs: Sequence[StoredRun]) -> list[PageSection]:
    """Who did what in every round, for methods whose clients do not all do the same."""
    sections: list[PageSection] = []
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
                x_label=AXES["rounds"].label,
                each="round",
                first=1,
            )
        )
    return sections


def settings(runs: Sequence[StoredRun]) -> list[PageSection]:
    """What was set, and where it ran."""
    configs = [
        (f"{label} ({_seeds(members)})", to_toml(members[0].config.plain())) for label, members in groups(runs).items()
    ]
    places = [(run.path.name, json.dumps(run.environment, indent=2)) for run in runs if run.environment]
    return [Text(title="Configuration", parts=configs), Text(title="Environment", parts=places)]


def _line(curve: Curve, shown: Sequence[str]) -> dict[str, Any]:
    points = {
        measure: {
            "x": {axis: [_brief(point.x[axis]) for point in line] for axis in shown if axis in line[0].x},
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


def _begun(runs: Sequence[StoredRun]) -> str:
    begun = min((run.environment["begun"] for run in runs if "begun" in run.environment), default="")
    return str(begun).partition("T")[0]


def _seeds(runs: Sequence[StoredRun]) -> str:
    numbers = ", ".join(str(run.config.seed) for run in runs)
    return f"seed {numbers}" if len(runs) == 1 else f"seeds {numbers}"
