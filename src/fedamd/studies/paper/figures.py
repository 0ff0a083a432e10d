"""Figures of an experiment: its curves by panel, and how every pair of rates of its grids did."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedamd.report.curves import PAPER, Curve, measured_points
from fedamd.report.figures import INK, Panel, draw_panels, save
from fedamd.runs.records import Record
from fedamd.studies.paper.experiments import TARGET
from fedamd.studies.paper.reproduce import ReproducedCurve, final_accuracy
from fedamd.studies.paper.table import panels

_DPI, _COLOURS = 80, 128  # small files, as they are kept with the results


def curve(outcome: ReproducedCurve) -> Curve:
    """The mean over the seeds, between the smallest and the largest."""
    seeds = tuple(run["seed"] for run in outcome.runs)
    diverged = sum(run["status"] == "diverged" for run in outcome.runs)
    return Curve(outcome.label, seeds, diverged, measured_points([_records(run) for run in outcome.runs]))


def _records(run: Any) -> list[Record]:
    """A stored run as the records its curves were made from."""
    columns = zip(run["accuracy"], run["loss"], run["gradients"], run["bits"], strict=True)
    return [
        Record(
            t,
            loss,
            metrics={"accuracy": accuracy},
            costs={"gradient_samples": gradients, "bits_up": bits, "bits_down": 0},
        )
        for t, (accuracy, loss, gradients, bits) in enumerate(columns)
    ]


def draw_curves(outcomes: Sequence[ReproducedCurve], path: Path) -> Path:
    """Accuracy against rounds, gradients and bits, a column for each panel of the experiment."""
    drawn = {panel: [curve(outcome) for outcome in own] for panel, own in panels(outcomes).items()}
    rows = [[Panel(curves, axis, "accuracy", panel) for panel, curves in drawn.items()] for axis in PAPER]
    return _small(draw_panels(rows, path, target=TARGET, dpi=_DPI), outcomes)


def draw_grids(outcomes: Sequence[ReproducedCurve], path: Path) -> Path | None:
    """Final accuracy over η_l and η_s: a row for each panel, a map for each method; None where no grid was run."""
    from matplotlib.figure import Figure  # not at import: only drawing needs it

    rows = panels([outcome for outcome in outcomes if outcome.grid])
    if not rows:
        return None
    columns = list(dict.fromkeys(outcome.label for own in rows.values() for outcome in own))
    figure = Figure(figsize=(0.8 + 2.1 * len(columns), 0.7 + 2.6 * len(rows)), layout="constrained", facecolor="white")
    grid = figure.subplots(len(rows), len(columns), squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()  # until there is something to show
    for line, (panel, own) in zip(grid, rows.items(), strict=True):
        for outcome in own:
            _map(line[columns.index(outcome.label)], outcome, f"{outcome.label}\n{panel}")
    figure.suptitle("Final accuracy on seed 0, %, of each pair of rates (–: diverged)", color=INK, fontsize=11)
    return _small(save(figure, path, dpi=_DPI), outcomes)


def accuracies(outcome: ReproducedCurve) -> tuple[list[float], list[float], list[list[float]]]:
    """The local rates down, the server's across, and the final accuracy of each pair in percent; 0 if it diverged."""
    local, server = (sorted({pair[which] for pair in outcome.grid}, reverse=True) for which in (0, 1))
    return local, server, [[100 * final_accuracy(outcome.grid[eta_l, eta_s]) for eta_s in server] for eta_l in local]


def _map(axes: Any, outcome: ReproducedCurve, title: str) -> None:
    """One method's grid."""
    local, server, values = accuracies(outcome)
    axes.set_axis_on()
    axes.imshow(values, cmap="viridis", vmin=10, vmax=90, aspect="auto")
    axes.set_title(title, fontsize=8, color=INK)
    axes.set_xticks(range(len(server)), [f"{eta_s:g}" for eta_s in server], fontsize=7)
    axes.set_yticks(range(len(local)), [f"{eta_l:g}" for eta_l in local], fontsize=7)
    axes.set_xlabel("η_s", fontsize=8)
    axes.set_ylabel("η_l", fontsize=8)
    for row, across in enumerate(values):
        for column, value in enumerate(across):
            shade = "black" if value > 60 else "white"
            axes.text(column, row, f"{value:.0f}" if value else "–", ha="center", va="center", fontsize=7, color=shade)


def is_drawn(outcomes: Sequence[ReproducedCurve], path: Path) -> bool:
    """Whether a picture is there and shows just these runs."""
    from PIL import Image

    if not path.exists():
        return False
    with Image.open(path) as picture:
        return bool(picture.info.get("runs") == _runs(outcomes))


def _small(path: Path, outcomes: Sequence[ReproducedCurve]) -> Path:
    """The picture with few colours, a third of the size, and a note of the runs it shows."""
    from PIL import Image, PngImagePlugin  # comes with matplotlib

    note = PngImagePlugin.PngInfo()
    note.add_text("runs", _runs(outcomes))
    Image.open(path).convert("RGB").quantize(_COLOURS).save(path, optimize=True, pnginfo=note)
    return path


def _runs(outcomes: Sequence[ReproducedCurve]) -> str:
    """A digest of all runs behind these outcomes."""
    runs = [
        run
        for one in outcomes
        for run in (*one.grid.values(), *(run for pair in one.repeated.values() for run in pair))
    ]
    return hashlib.sha256("".join(run["hash"] for run in runs).encode()).hexdigest()[:16]
