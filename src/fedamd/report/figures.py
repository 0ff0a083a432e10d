"""Figures for paper and slides: accuracy and loss of runs, as PNG, SVG or PDF."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedamd.errors import FedamdError
from fedamd.report.curves import AXES, MEASURES, Curve, Point

# Okabe & Ito's colours in an order that keeps neighbours apart for colour-blind readers too; dashes tell repeats apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B5B5B")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)))
INK, FAINT = "#26323d", "#d9dee3"
_LETTERS = 10  # that a legend has room for in an inch


def draw_measures(curves: Sequence[Curve], path: Path) -> Path:
    """Every measure against rounds, side by side."""
    measures = [measure for measure in MEASURES if any(measure in curve.points for curve in curves)]
    if not measures:
        raise FedamdError("there is nothing to draw yet: no round of these runs has been measured")
    return _draw(curves, [("rounds", measure) for measure in measures], path)


def draw_costs(curves: Sequence[Curve], path: Path, target: float | None = None) -> Path:
    """Accuracy (or test loss, where nothing is classified) against rounds, gradients and bits, side by side."""
    measure = "accuracy" if any("accuracy" in curve.points for curve in curves) else "test_loss"
    return _draw(curves, [(axis, measure) for axis in AXES], path, target if measure == "accuracy" else None)


def _draw(curves: Sequence[Curve], panels: Sequence[tuple[str, str]], path: Path, target: float | None = None) -> Path:
    from matplotlib.figure import Figure  # not at import: only drawing needs it

    figure = Figure(figsize=(1.2 + 3.7 * len(panels), 3.9), layout="constrained", facecolor="white")
    for axes, (axis, measure) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for number, curve in enumerate(curves):
            _line(axes, curve, axis, measure, number)
        if target is not None:
            axes.axhline(target, color=INK, linewidth=0.8, linestyle=":", zorder=1)
        _dress(axes, AXES[axis], measure)
        _scale(axes, [point for curve in curves if not curve.diverged for point in curve.points.get(measure, [])])
    handles, names = figure.axes[0].get_legend_handles_labels()
    if len(names) > 1:
        columns = max(1, int(_LETTERS * figure.get_figwidth() / (max(map(len, names)) + 6)))
        figure.legend(
            handles, names, loc="outside lower center", ncols=min(columns, len(names)), frameon=False, labelcolor=INK
        )
    elif names:
        figure.suptitle(names[0], color=INK, fontsize=11, fontweight="bold")
    return _save(figure, path)


def _line(axes: Any, curve: Curve, axis: str, measure: str, number: int) -> None:
    """The mean over the seeds, and the band between the smallest and the largest."""
    points = curve.points.get(measure, [])
    colour, dash = COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]
    x = [point.x[axis] for point in points]
    axes.plot(x, [point.mean for point in points], color=colour, linestyle=dash, linewidth=1.8, label=curve.title)
    if len(curve.seeds) > 1:
        low, high = [point.low for point in points], [point.high for point in points]
        axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)


def _scale(axes: Any, points: Sequence[Point]) -> None:
    """Let the curves that did not diverge set the scale."""
    if points:
        low, high = min(point.low for point in points), max(point.high for point in points)
        air = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        axes.set_ylim(low - air, high + air)


def _dress(axes: Any, label: str, measure: str) -> None:
    from matplotlib.ticker import PercentFormatter

    axes.set_xlabel(label, color=INK)
    axes.set_title(MEASURES[measure], color=INK, fontsize=10, loc="left")
    axes.set_xlim(left=0)
    if measure == "accuracy":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=0, labelsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)


def _save(figure: Any, path: Path) -> Path:
    if path.suffix.lstrip(".").lower() not in figure.canvas.get_supported_filetypes():
        raise FedamdError(f"{path} does not end in a picture format: use .png, .svg or .pdf")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise FedamdError(f"cannot write the picture to {path}: {error.strerror}") from None
    return path
