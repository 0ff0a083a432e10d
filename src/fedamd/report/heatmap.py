"""A heat-map of a sweep: mean final accuracy over two of its keys."""

import math
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedamd.runs.sweep import Sweep


def draw_heatmap(sweep: Sweep, path: Path) -> Path | None:
    """Draw the first two keys that vary (besides the seed); None where there are not two."""
    varying = [key for key, values in sweep.grid.axes.items() if key != "seed" and len(values) > 1]
    if len(varying) < 2:
        return None
    down, across = varying[:2]
    rows, columns = sweep.grid.axes[down], sweep.grid.axes[across]
    values = np.full((len(rows), len(columns)), np.nan)
    for entry in sweep.entries:  # where more keys vary, the best over the others is shown
        row, column = rows.index(entry.point[down]), columns.index(entry.point[across])
        if math.isfinite(entry.mean):
            values[row, column] = np.nanmax([values[row, column], 100 * entry.mean])
    figure = Figure(figsize=(2.2 + 0.9 * len(columns), 1.6 + 0.5 * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    image = axes.imshow(values, cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(columns)), [str(value) for value in columns])
    axes.set_yticks(range(len(rows)), [str(value) for value in rows])
    axes.set_xlabel(across.rpartition(".")[2])
    axes.set_ylabel(down.rpartition(".")[2])
    middle = np.nanmean(values) if np.isfinite(values).any() else 0.0
    for (row, column), value in np.ndenumerate(values):
        label = f"{value:.1f}" if math.isfinite(value) else "diverged"
        axes.text(column, row, label, ha="center", va="center", color="white" if not value > middle else "black")
    figure.colorbar(image, ax=axes, label="final accuracy, %")
    figure.savefig(path, dpi=150)
    return path
