"""The page of a tuning: what mattered, where every trial was, and how the best of them learned."""

from pathlib import Path
from typing import Any

from fedamd.campaigns.tune import Trial, Tuned
from fedamd.files import write_text
from fedamd.report.content import curve_section
from fedamd.report.curves import draw_curves
from fedamd.report.figures import INK, save
from fedamd.report.page import Facts, PageSection, Picture, Table, Tone, build_page, cell
from fedamd.report.stored import read_runs

CURVES = 6  # so many trials are drawn: a chart of all of them would be a tangle


def write_page(result: Tuned) -> Path:
    """tune.html in the tuning's folder."""
    folder, keys = result.plan.folder, [*result.plan.space]
    best = result.best
    facts = [("trials", str(len(result.trials))), ("rounds in all", str(result.rounds))]
    facts += [(f"best {result.measure.label}", _value(result, best))] if best else []
    sections: list[PageSection] = [Facts(title="", facts=facts)]
    if result.importance:
        told = [[cell(key), cell(value, f"{value:.0%}")] for key, value in result.importance.items()]
        sections.append(Table(title="Importance", columns=["key", "share of the scores' spread"], rows=told))
    if len(keys) > 1 and any(trial.score is not None for trial in result.trials):
        sections.append(Picture.of("Where the trials were", _coordinates(result, folder / "trials.png")))
    if leaders := _leaders(result):
        curves = draw_curves(read_runs([result.plan.path(trial.number) for trial in leaders]))
        sections.append(curve_section(curves, result.plan.trial({}).target_accuracy or 0.0))
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
        cell(None if trial.score is None else result.measure.score(trial.score), _value(result, trial), tone),
        cell(trial.status),
    ]


def _value(result: Tuned, trial: Trial) -> str:
    """What the trial is judged by, from its score."""
    return result.measure.text(None if trial.score is None else result.measure.score(trial.score))


def _coordinates(result: Tuned, path: Path) -> Path:
    """Parallel coordinates: an axis for each key and one for the score, a line for each trial, the best dark."""
    from matplotlib.figure import Figure  # not at import: only drawing needs it

    keys = [*result.plan.space]
    told = sorted((trial for trial in result.trials if trial.score is not None), key=lambda trial: trial.score or 0.0)
    scores = [trial.score or 0.0 for trial in told]
    spread = (max(scores) - min(scores)) or 1.0
    figure = Figure(figsize=(1.5 + 1.8 * len(keys), 3.6), layout="constrained", facecolor="white")
    axes = figure.subplots()
    for trial, score in zip(told, scores, strict=True):
        good = (score - min(scores)) / spread
        heights = [_height(result, key, trial.point[key]) for key in keys]
        axes.plot(range(len(keys) + 1), [*heights, good], color="#1f5fa8", alpha=0.1 + 0.8 * good**2, linewidth=1.2)
    axes.set_xticks(range(len(keys) + 1), [*(key.removeprefix("algorithm.") for key in keys), "score"], color=INK)
    axes.set_yticks([0, 1], ["low", "high"], color=INK)
    return save(figure, path, 110)


def _height(result: Tuned, key: str, value: Any) -> float:
    """Where a value lies in its range, from 0 to 1."""
    where = result.plan.space[key]
    low, high = 0.0, 1.0
    for _ in range(30):  # every range grows with its share: halve until the share is found
        middle = (low + high) / 2
        if _index(where, where.at(middle)) <= _index(where, value):
            low = middle
        else:
            high = middle
    return low


def _index(where: Any, value: Any) -> float:
    return float(where.values.index(value)) if hasattr(where, "values") else float(value)
