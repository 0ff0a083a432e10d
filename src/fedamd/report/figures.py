"""Figures for paper and slides: accuracy and loss of runs, as PNG, SVG or PDF."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedamd.errors import FedamdError
from fedamd.metrics import Target
from fedamd.report.curves import AXES, MEASURES, Curve, Point, known_axes, known_measures

# Okabe & Ito's colours in an order that keeps neighbours apart for colour-blind readers too; dashes tell repeats apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B5B5B")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)))
INK, FAINT = "#26323d", "#d9dee3"
_LETTERS = 10  # that a legend has room for in an inch


@dataclass(frozen=True)
class Panel:
    """One pair of axes and what is drawn in it."""

    curves: Sequence[Curve]
    axis: str
    measure: str
    title: str = ""  # the measure's name, unless told


def draw_measures(curves: Sequence[Curve], path: Path) -> Path:
    """Every measure against rounds, side by side."""
    drawn = known_measures(curves)
    if not drawn:
        raise FedamdError("there is nothing to draw yet: no round of these runs has been measured")
    return draw_panels([[Panel(curves, "rounds", measure) for measure in drawn]], path)


def draw_costs(curves: Sequence[Curve], path: Path, target: Target | None = None, measure: str = "accuracy") -> Path:
    """What runs are judged by against rounds, gradients, traffic and simulated time, side by side."""
    panels = [Panel(curves, axis, measure) for axis in known_axes(curves) or ["rounds"]]
    return draw_panels([panels], path, target.value if target and target.measure.name == measure else None)


def draw_panels(rows: Sequence[Sequence[Panel]], path: Path, target: float | None = None, dpi: int = 150) -> Path:
    """Panels in rows of equal length; a curve has the same colour in all of them."""
    from matplotlib.figure import Figure  # not at import: only drawing needs it

    size = (1.2 + 3.7 * len(rows[0]), 0.6 + 3.3 * len(rows))
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    labels = list(dict.fromkeys(curve.label for row in rows for panel in row for curve in panel.curves))
    grid = figure.subplots(len(rows), len(rows[0]), squeeze=False)
    for axes, panel in zip(grid.flat, (panel for row in rows for panel in row), strict=True):
        for curve in panel.curves:
            _line(axes, curve, panel.axis, panel.measure, labels.index(curve.label))
        if target is not None:
            axes.axhline(target, color=INK, linewidth=0.8, linestyle=":", zorder=1)
        _dress(axes, panel)
        steady = [curve for curve in panel.curves if not curve.diverged]
        _scale(axes, [point for curve in steady for point in curve.points.get(panel.measure, [])])
    _legend(figure, rows)
    return save(figure, path, dpi)


def _legend(figure: Any, rows: Sequence[Sequence[Panel]]) -> None:
    """All labels below the panels; a single one above them. What diverged says so, where that is so in all panels."""
    titles: dict[str, set[str]] = {}
    handles: dict[str, Any] = {}
    for axes, panel in zip(figure.axes, (panel for row in rows for panel in row), strict=True):
        handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True)) | handles
        for curve in panel.curves:
            titles.setdefault(curve.label, set()).add(curve.title)
    names = [titles[label].pop() if len(titles[label]) == 1 else label for label in handles]
    if len(names) > 1:
        columns = max(1, int(_LETTERS * figure.get_figwidth() / (max(map(len, names)) + 6)))
        place = {"loc": "outside lower center", "ncols": min(columns, len(names))}
        figure.legend(handles.values(), names, frameon=False, labelcolor=INK, **place)
    elif names:
        figure.suptitle(names[0], color=INK, fontsize=11, fontweight="bold")


def _line(axes: Any, curve: Curve, axis: str, measure: str, number: int) -> None:
    """The mean over the seeds, and the band between the smallest and the largest."""
    points = curve.points.get(measure, [])
    colour, dash = COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]
    points = [point for point in points if axis in point.x]
    x = [point.x[axis] for point in points]
    axes.plot(x, [point.mean for point in points], color=colour, linestyle=dash, linewidth=1.8, label=curve.label)
    if len(curve.seeds) > 1:
        low, high = [point.low for point in points], [point.high for point in points]
        axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)


def _scale(axes: Any, points: Sequence[Point]) -> None:
    """Let the curves that did not diverge set the scale."""
    if points:
        low, high = min(point.low for point in points), max(point.high for point in points)
        air = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        axes.set_ylim(low - air, high + air)


def _dress(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator, PercentFormatter

    axes.set_xlabel(AXES[panel.axis].label, color=INK)
    if panel.axis in ("gradients", "traffic"):
        axes.xaxis.set_major_locator(MaxNLocator(5))  # "1.25 GB" is wide
        axes.xaxis.set_major_formatter(EngFormatter("B") if AXES[panel.axis].unit == "bytes" else EngFormatter(sep=""))
    axes.set_title(panel.title or MEASURES.get(panel.measure, panel.measure), color=INK, fontsize=10, loc="left")
    axes.set_xlim(left=0)
    if panel.measure == "accuracy":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=0, labelsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)


def save(figure: Any, path: Path, dpi: int = 150) -> Path:
    """As the format of the file's ending."""
    if path.suffix.lstrip(".").lower() not in figure.canvas.get_supported_filetypes():
        raise FedamdError(f"{path} does not end in a picture format: use .png, .svg or .pdf")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=dpi)
    except OSError as error:
        raise FedamdError(f"cannot write the picture to {path}: {error.strerror}") from None
    return path
