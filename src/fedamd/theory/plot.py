"""The planner's figure: what FedAMD costs against the anchor probability p, with p* marked and its rivals as levels."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedamd.errors import FedamdError
from fedamd.theory.costs import Speeds
from fedamd.theory.methods import CONSTANT
from fedamd.theory.planner import evaluate, plan
from fedamd.theory.probability import anchor_probability
from fedamd.theory.problem import Problem, countable

Values = NDArray[np.float64]
UNITS = {
    "rounds": "rounds to ε",
    "gradients": "gradient samples to ε",
    "bits": "bits moved to ε",
    "seconds": "seconds to ε",
}


def plot_cost(problem: Problem, path: str | Path, cost: str = "rounds", speeds: Speeds | None = None) -> Path:
    """Draw the cost of a constant p over (0, 1) and return the path of the picture."""
    from matplotlib.figure import Figure  # not at import: only this function draws

    grid, prices = cost_curve(problem, cost, speeds)
    star = anchor_probability(replace(problem, p=None, c=1.0))
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.plot(grid, prices, color="#1f4e9c", linewidth=2.2, label="FedAMD (constant p)", zorder=3)
    at_star = float(np.interp(star, grid, prices))
    axes.plot([star], [at_star], "o", color="#c8372d", markersize=8, zorder=4, label=f"p* = {star:.3f} (fewest rounds)")
    axes.axvline(star, color="#c8372d", linewidth=0.8, linestyle=":")
    cheapest = int(np.argmin(prices))
    if cost != "rounds":
        label = f"cheapest p = {grid[cheapest]:.3f}"
        axes.plot([grid[cheapest]], [prices[cheapest]], "D", color="#2b7a3d", markersize=7, zorder=4, label=label)
    rivals = [entry for entry in plan(problem, cost, speeds).entries if entry.method != CONSTANT.key]
    for entry, style in zip(rivals, ("-.", "--", ":", (0, (5, 1)), (0, (1, 1)), (0, (8, 3))), strict=True):
        if not entry.violations:
            axes.axhline(getattr(entry, cost), color="#777777", linewidth=1.1, linestyle=style, label=entry.name)
    axes.set(yscale="log", xlim=(0, 1), xlabel="anchor probability p", ylabel=UNITS[cost])
    axes.set_title(
        f"M = {problem.M}, A = {problem.A}, K = {problem.K}, b' = {problem.b_small}, ε = {problem.epsilon:g}"
    )
    axes.grid(alpha=0.25, which="both")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False)
    target = Path(path)
    if target.suffix.lstrip(".").lower() not in figure.canvas.get_supported_filetypes():
        raise FedamdError(f'"{target}" does not end in a picture format: use .png, .svg or .pdf')
    try:
        figure.savefig(target, dpi=160)
    except OSError as error:
        raise FedamdError(f'cannot write the picture to "{target}": {error.strerror}') from error
    return target


def cost_curve(problem: Problem, cost: str, speeds: Speeds | None = None) -> tuple[Values, Values]:
    """p between 0 and 1, denser near 1 where p* of large cohorts lies, and FedAMD's cost at each."""
    grid = np.union1d(np.linspace(0.02, 0.98, 193), 1 - np.geomspace(0.02, 1e-3, 60))
    with countable():
        entries = [evaluate(CONSTANT, replace(problem, p=float(p)), speeds) for p in grid]
    if entries[0].violations:
        raise FedamdError("nothing to draw for FedAMD: " + "; ".join(entries[0].violations))
    prices = [getattr(entry, cost) for entry in entries]
    if None in prices:
        raise FedamdError(f"{cost} cannot be drawn: give d, and for seconds bandwidth and compute as well")
    return grid, np.array(prices, dtype=float)
