"""Curves and maps of outcomes written by hand."""

from pathlib import Path

import pytest
from paper_support import made_outcome, made_run

from fedamd.report.curves import PAPER
from fedamd.studies.paper.figures import curve, draw_curves, draw_grids


def test_a_curve_is_the_mean_over_seeds_against_what_it_cost() -> None:
    """Final accuracies 0.6 and 0.8; two rounds cost 2·10⁵ gradients and 2·32 Mbit. Without a loss there is no point."""
    drawn = curve(made_outcome("FedAvg", [made_run(0.6, seed=0), made_run(0.8, seed=1)]))
    last = drawn.points["accuracy"][-1]
    assert drawn.seeds == (0, 1)
    assert [last.x[axis] for axis in PAPER] == [2, 2, 2]
    assert (last.mean, last.low, last.high) == (pytest.approx(0.7), 0.6, 0.8)
    assert [point.x["rounds"] for point in drawn.points["loss"]] == [2]


def test_a_run_that_diverged_is_counted() -> None:
    assert curve(made_outcome("FedAvg", [made_run(0.6), made_run(0.1, status="diverged")])).diverged == 1


def test_pictures(tmp_path: Path) -> None:
    grid = {(0.1, 1.0): made_run(0.8), (0.01, 1.0): made_run(0.1, status="diverged")}
    outcomes = [made_outcome("FedAvg", [made_run(0.6)], cohort, grid=grid) for cohort in (20, 40)]
    for path in (draw_curves(outcomes, tmp_path / "curves.png"), draw_grids(outcomes, tmp_path / "rates.png")):
        assert path is not None
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size < 200_000


def test_without_a_grid_there_is_no_map(tmp_path: Path) -> None:
    assert draw_grids([made_outcome("FedAvg", [made_run(0.6)])], tmp_path / "rates.png") is None
    assert not (tmp_path / "rates.png").exists()
