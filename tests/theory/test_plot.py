"""The figure: its curve has its minimum at p*, and mistakes are sentences."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedamd.errors import FedamdError
from fedamd.theory.plot import cost_curve, plot_cost
from fedamd.theory.problem import Problem


def test_the_curve_is_lowest_near_the_optimal_p(make_problem: Callable[..., Problem]) -> None:
    """p* maximises the dominant term of the rounds, here M/A = 50 times the other."""
    grid, prices = cost_curve(make_problem(M=1000), "rounds")
    assert grid[np.argmin(prices)] == pytest.approx(0.887, abs=0.01)
    assert prices.min() == pytest.approx(1000 / 20 * 300, rel=1e-3)


@pytest.mark.parametrize("cost", ["rounds", "gradients", "bits"])
def test_a_picture_is_written(cost: str, tmp_path: Path, make_problem: Callable[..., Problem]) -> None:
    path = plot_cost(make_problem(), tmp_path / "cost.png", cost)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_refusals(tmp_path: Path, make_problem: Callable[..., Problem]) -> None:
    with pytest.raises(FedamdError, match="K = 1 is below"):
        plot_cost(make_problem(K=1), tmp_path / "cost.png")
    with pytest.raises(FedamdError, match="cannot be drawn"):
        cost_curve(make_problem(d=None), "bits")
    with pytest.raises(FedamdError, match="picture format"):
        plot_cost(make_problem(), tmp_path / "cost.text")
    with pytest.raises(FedamdError, match="cannot write"):
        plot_cost(make_problem(), tmp_path / "nowhere" / "cost.png")
