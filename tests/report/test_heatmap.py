"""The heat-map: the right value in the right cell, and a picture of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from fedamd.campaigns.grid import Grid
from fedamd.campaigns.sweep import Sweep, SweepEntry
from fedamd.metrics import Measure
from fedamd.report.heatmap import draw_heatmap, heat
from fedamd.runs.config import load_config

BRIGHTEST, DARKEST = (0.993, 0.906, 0.144), (0.267, 0.005, 0.329)
DOWN, ACROSS = "algorithm.eta_l", "algorithm.steps"
ACCURACY = Measure()


def swept(axes: dict[str, list[Any]], values: list[float | str], measure: Measure = ACCURACY) -> Sweep:
    """A sweep whose settings came to these values, or ended with these words."""
    grid = Grid(axes)
    entries = [
        SweepEntry(point, load_config(None), [value], [], [None])
        if isinstance(value, str)
        else SweepEntry(point, load_config(None), ["finished"], [value], [None])
        for point, value in zip(grid.points(), values, strict=True)
    ]
    return Sweep(grid, Path("nowhere"), measure, None, entries)


def test_every_value_is_in_its_cell():
    sweep = swept({DOWN: [0.1, 0.2], ACROSS: [1, 2, 3]}, [0.5, 0.25, "diverged", "interrupted", 0.125, 1.0])
    values, labels = heat(sweep, DOWN, ACROSS)
    np.testing.assert_array_equal(values, [[50, 25, np.nan], [np.nan, 12.5, 100]])
    assert labels.tolist() == [["50.0", "25.0", "diverged"], ["–", "12.5", "100.0"]]


@pytest.mark.parametrize(("measure", "best"), [(ACCURACY, "90.0"), (Measure("mse", higher_is_better=False), "0.3")])
def test_where_more_keys_vary_the_best_over_the_others_is_shown(measure, best):
    axes = {DOWN: [0.1], ACROSS: [1, 2], "algorithm.p": [0.1, 0.2, 0.3]}
    sweep = swept(axes, [0.3, 0.9, "diverged", "diverged", "diverged", "diverged"], measure)
    assert heat(sweep, DOWN, ACROSS)[1].tolist() == [[best, "diverged"]]


def test_the_picture_shows_what_diverged_in_no_colour(tmp_path):
    """Of four cells one diverged and stays white; the best is viridis's brightest, more of it than the scale has."""
    sweep = swept({DOWN: [0.1, 0.2], ACROSS: ["a", "b"]}, [0.1, 0.5, 0.9, "diverged"])
    path = draw_heatmap(sweep, tmp_path / "map.png")
    assert path == tmp_path / "map.png"
    pixels = imread(path)[..., :3]
    shares = [np.isclose(pixels, colour, atol=0.02).all(-1).mean() for colour in (BRIGHTEST, DARKEST)]
    assert min(shares) > 0.05


def test_a_sweep_in_which_all_diverged_has_a_picture_too(tmp_path):
    sweep = swept({DOWN: [0.1, 0.2], ACROSS: [1, 2]}, ["diverged"] * 4)
    assert draw_heatmap(sweep, tmp_path / "map.png") is not None


@pytest.mark.parametrize("axes", [{DOWN: [0.1, 0.2]}, {DOWN: [0.1, 0.2], ACROSS: [1]}, {DOWN: [1, 2], "seed": [1, 2]}])
def test_one_key_is_no_map(axes, tmp_path):
    sweep = swept(axes, [0.1] * len(Grid(axes).points()))
    assert draw_heatmap(sweep, tmp_path / "map.png") is None
    assert list(tmp_path.iterdir()) == []
