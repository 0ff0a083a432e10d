"""The planner's problem, from a run's config."""

from typing import Any

import pytest

from fedamd.errors import FedamdError
from fedamd.runs.config import Config, load_config
from fedamd.runs.experiment import build_experiment
from fedamd.runs.planning import estimated_problem

GIVEN = {"epsilon": 1e-3}


def config(**changes: Any) -> Config:
    data = {"name": "quadratic", "samples": 6, "dimension": 3, "L": 2.0, "mu": 0.5, "sigma": 1.5}
    raw = {"data": data, "algorithm": {"steps": 4, "small_batch": 2}, "clients": 7, "cohort": 3, "dtype": "float64"}
    return load_config(raw | changes)


def test_sizes_are_the_configs_and_constants_those_of_the_data() -> None:
    """A quadratic has the same constants everywhere, so estimates at x_0 from all samples are exact."""
    problem, found = estimated_problem(config(), GIVEN)
    assert (problem.M, problem.A, problem.K, problem.b_small, problem.n, problem.d) == (7, 3, 4, 2, 6, 3)
    assert [problem.L, problem.mu, problem.sigma] == pytest.approx([2.0, 0.5, 1.5])
    assert problem.L_sigma == pytest.approx(0.0, abs=1e-6)
    assert problem.delta == found.delta.value


def test_flags_win() -> None:
    problem, _ = estimated_problem(config(), GIVEN | {"L": 9.0, "K": 11, "n": 100})
    assert (problem.L, problem.K, problem.n, problem.A) == (9.0, 11, 100, 3)


def test_a_convex_model_without_strong_convexity_is_planned_as_non_convex() -> None:
    """Adding a constant to all scores of a softmax changes nothing: its Hessian has zero eigenvalues, μ = 0."""
    problem, found = estimated_problem(
        config(data={"name": "digits"}, partition={"name": "iid"}, model={"name": "softmax"}), GIVEN, budget=60_000
    )
    assert found.mu is not None
    assert problem.mu is None


def test_rates_left_to_theory_are_not_looked_for() -> None:
    """K = b' = 1 is too little for Theorem 4.8's rates on this logistic problem, but it can be planned for."""
    rates = {"eta_l": "theory", "eta_s": "theory", "steps": 1, "small_batch": 1}
    asked = config(data={"name": "logistic", "samples": 6}, algorithm=rates)
    with pytest.raises(FedamdError, match="take K ≥"):
        build_experiment(asked)
    problem, _ = estimated_problem(asked, GIVEN)
    assert (problem.K, problem.b_small) == (1, 1)


def test_progress_and_budget() -> None:
    seen: list[str] = []
    _, found = estimated_problem(config(), GIVEN, 5_000, lambda name, _: seen.append(name))
    assert list(dict.fromkeys(seen)) == ["L", "sigma", "L_sigma", "heterogeneity", "delta", "mu"]
    assert sum(one.samples_used for one in vars(found).values()) <= 5_000


def test_what_neither_says() -> None:
    with pytest.raises(FedamdError, match="a plan needs --epsilon as well"):
        estimated_problem(config(), {})
