"""A heat-map of a sweep: what its runs are judged by, over two of its keys."""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fedamd.campaigns.sweep import Sweep


def draw_heatmap(sweep: Sweep, path: Path) -> Path | None:
    """Draw the first two keys that vary (besides the seed); None where there are not two."""
    varying = [key for key, values in sweep.grid.axes.items() if key != "seed" and len(values) > 1]
    if len(varying) < 2:
        return None
    down, across, *others = varying
    values, labels = heat(sweep, down, across)
    names = sweep.grid.short_keys()
    figure = Figure(figsize=(2.2 + 0.9 * values.shape[1], 1.6 + 0.5 * values.shape[0]), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    shown = np.ma.masked_invalid(values)
    image = axes.imshow(shown, cmap="viridis" if sweep.measure.higher_is_better else "viridis_r", aspect="auto")
    axes.set_xticks(range(values.shape[1]), [str(value) for value in sweep.grid.axes[across]])
    axes.set_yticks(range(values.shape[0]), [str(value) for value in sweep.grid.axes[down]])
    axes.set_xlabel(names[across])
    axes.set_ylabel(names[down])
    if others:
        axes.set_title(f"best over {', '.join(names[key] for key in others)}", fontsize="medium")
    for cell, label in np.ndenumerate(labels):
        red, green, blue, alpha = image.to_rgba(shown)[cell]
        dark = alpha > 0 and red + green + blue < 1.5
        axes.text(cell[1], cell[0], label, ha="center", va="center", color="white" if dark else "black")
    figure.colorbar(image, ax=axes, label=f"final {sweep.measure.label}" + ", %" * _in_percent(sweep))
    figure.savefig(path, dpi=150)
    return path


def heat(sweep: Sweep, down: str, across: str) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """The best value in every cell (accuracies in %), NaN where there is none; and what to write into it."""
    rows, columns = sweep.grid.axes[down], sweep.grid.axes[across]
    values = np.full((len(rows), len(columns)), np.nan)
    labels = np.full(values.shape, "", dtype="U16")
    ranked = sweep.ranked
    for entry in (*(entry for entry in sweep.entries if entry not in ranked), *reversed(ranked)):  # the best last
        cell = rows.index(entry.point[down]), columns.index(entry.point[across])
        if entry.mean is None:
            labels[cell] = "diverged" if "diverged" in entry.statuses else "–"
        else:
            values[cell] = 100 * entry.mean if _in_percent(sweep) else entry.mean
            labels[cell] = f"{values[cell]:.1f}" if _in_percent(sweep) else f"{values[cell]:.3g}"
    return values, labels


def _in_percent(sweep: Sweep) -> bool:
    return sweep.measure.name == "accuracy"
