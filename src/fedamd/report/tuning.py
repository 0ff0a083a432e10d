"""The page of a tuning: what mattered, where every trial was, and how the best of them learned."""

from pathlib import Path
from typing import Any

from fedamd.campaigns.tune import Trial, Tuned
from fedamd.files import write_text
from fedamd.report.content import curve_section
from fedamd.report.curves import draw_curves
from fedamd.report.page import Facts, PageSection, Table, Tone, build_page, cell
from fedamd.report.space import Place, parallel
from fedamd.report.stored import read_runs

CURVES = 6  # so many trials are drawn: a chart of all of them would be a tangle


def write_page(result: Tuned) -> Path:
    """tune.html in the tuning's folder."""
    folder, keys = result.plan.folder, [*result.plan.space]
    best = result.best
    facts = [("trials", str(len(result.trials))), ("rounds in all", str(result.rounds))]
    facts += [(f"best {result.measure.label}", result.measure.text(_measured(result, best)))] if best else []
    sections: list[PageSection] = [Facts(title="", facts=facts)]
    if result.importance:
        told = [[cell(key), cell(value, f"{value:.0%}")] for key, value in result.importance.items()]
        sections.append(Table(title="Importance", columns=["key", "share of the scores' spread"], rows=told))
    if len(keys) > 1 and any(trial.score is not None for trial in result.trials):
        places = [Place(trial.point, _measured(result, trial), trial.status) for trial in result.trials]
        sections.append(parallel(places, keys, result.measure))
    if leaders := _leaders(result):
        curves = draw_curves(read_runs([result.plan.path(trial.number) for trial in leaders]))
        sections.append(curve_section(curves, result.plan.trial({}).target_accuracy))
    rows = [_row(result, trial) for trial in result.trials]
    columns = ["trial", *keys, "share of the budget", result.measure.label, "status"]
    note = f"The {result.measure.label} is the last one measured within the trial's share of the budget."
    sections.append(Table(title="Trials", note=note, columns=columns, rows=rows))
    write_text(folder / "tune.html", build_page("Tuning", sections, subtitle=result.plan.config["algorithm"]["name"]))
    return folder / "tune.html"


def _leaders(result: Tuned) -> list[Trial]:
    """The trials that got furthest, the better ones of those that got as far."""
    told = [trial for trial in result.trials if trial.score is not None and trial.share > 0]
    return sorted(told, key=lambda trial: (-trial.share, -(trial.score or 0.0)))[:CURVES]


def _row(result: Tuned, trial: Trial) -> list[Any]:
    tone: Tone = "best" if trial is result.best else "bad" if trial.score is None else ""
    return [
        cell(trial.number),
        *(cell(trial.point[key]) for key in result.plan.space),
        cell(trial.share, f"{trial.share:.0%}"),
        cell(_measured(result, trial), result.measure.text(_measured(result, trial)), tone),
        cell(trial.status),
    ]


def _measured(result: Tuned, trial: Trial) -> float | None:
    """What the trial is judged by, from its score."""
    return None if trial.score is None else result.measure.score(trial.score)
