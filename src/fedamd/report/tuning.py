"""The page of a tuning: what mattered, where every trial was, and how the best of them learned."""

import shlex
from pathlib import Path
from typing import Any

from fedamd.campaigns.tune import Trial, Tuned
from fedamd.files import write_text
from fedamd.report.content import curve_section
from fedamd.report.curves import by_settings, draw_curves
from fedamd.report.page import Facts, PageSection, Table, Text, Tone, build_page, cell
from fedamd.report.space import Place, parallel, setting_cell, short, word
from fedamd.report.stored import read_runs

CURVES = 6  # so many trials are drawn: a chart of all of them would be a tangle


def write_page(result: Tuned) -> Path:
    """tune.html in the tuning's folder."""
    folder, keys = result.plan.folder, [*result.plan.space]
    sections: list[PageSection] = [_facts(result), *_repeat(folder)]
    if result.importance:
        told = [[cell(short(key)), cell(value, f"{value:.0%}")] for key, value in result.importance.items()]
        sections.append(Table(title="Importance", columns=["setting", "share of the variance in scores"], rows=told))
    if len(keys) > 1 and any(trial.score is not None for trial in result.trials):
        places = [Place(trial.point, _measured(result, trial), trial.status) for trial in result.trials]
        sections.append(parallel(places, keys, result.measure))
    if leaders := _leaders(result):
        drawn = read_runs([result.plan.path(trial.number) for trial in leaders])
        sections.append(curve_section(by_settings(draw_curves(drawn)), drawn[0].target))
    rows = [_row(result, trial) for trial in result.trials]
    columns = ["trial", result.measure.label, *map(short, keys), "share of\nthe budget", "status"]
    note = f"The {result.measure.label} is the last one measured within the trial's share of the budget."
    sections.append(Table(title="Trials", note=note, columns=columns, rows=rows))
    write_text(folder / "tune.html", build_page("Tuning", sections, subtitle=result.plan.config["algorithm"]["name"]))
    return folder / "tune.html"


def _facts(result: Tuned) -> Facts:
    """The best setting before everything else."""
    facts = [("trials", str(len(result.trials))), ("total rounds", str(result.rounds))]
    if best := result.best:
        setting = ", ".join(f"{short(key)} = {word(value)}" for key, value in best.point.items())
        value = result.measure.text(_measured(result, best))
        facts = [("best setting", setting), (f"its {result.measure.label}", value), *facts]
    return Facts(title="", facts=facts)


def _repeat(folder: Path) -> list[PageSection]:
    best = folder / "best.toml"
    command = ("The best setting", f"fedamd run {shlex.quote(str(best))}")
    return [Text(title="How to repeat it", parts=[command], open=True)] if best.is_file() else []


def _leaders(result: Tuned) -> list[Trial]:
    """The trials that got furthest, the better ones of those that got as far."""
    told = [trial for trial in result.trials if trial.score is not None and trial.share > 0]
    return sorted(told, key=lambda trial: (-trial.share, -(trial.score or 0.0)))[:CURVES]


def _row(result: Tuned, trial: Trial) -> list[Any]:
    tone: Tone = "best" if trial is result.best else "bad" if trial.score is None else ""
    return [
        cell(trial.number),
        cell(_measured(result, trial), result.measure.text(_measured(result, trial)), tone),
        *(setting_cell(trial.point[key]) for key in result.plan.space),
        cell(trial.share, f"{trial.share:.0%}"),
        cell(trial.status),
    ]


def _measured(result: Tuned, trial: Trial) -> float | None:
    """What the trial is judged by, from its score."""
    return None if trial.score is None else result.measure.score(trial.score)
