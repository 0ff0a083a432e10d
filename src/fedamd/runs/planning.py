"""From a run's config to the problem the planner is asked about: sizes as configured, constants as estimated."""

from collections.abc import Mapping
from typing import Any

from fedamd.errors import FedamdError
from fedamd.runs.config import Config
from fedamd.runs.constants import estimated_constants
from fedamd.runs.experiment import Experiment, build_experiment
from fedamd.theory.anchored import AnchoredAdvice, advise
from fedamd.theory.estimate import Estimates, Progress
from fedamd.theory.problem import Problem, Rates

NEEDED = {  # what a `Problem` cannot do without, and how it is given
    "M": "--clients",
    "A": "--cohort",
    "K": "--steps",
    "b_small": "--small-batch",
    "epsilon": "--epsilon",
    "L": "--L",
    "L_sigma": "--L-sigma",
    "sigma": "--sigma",
    "delta": "--delta",
}
SIZES = {"steps": "K", "small_batch": "b_small"}  # options of a method that the planner has other names for


def estimated_problem(
    config: Config, given: Mapping[str, Any], budget: int | None = None, progress: Progress | None = None
) -> tuple[Problem, Estimates]:
    """The config's problem, and the estimates at x_0 it is made of. What is `given` (names of `Problem`) wins.

    Where clients own different numbers of samples, n is the smallest. A μ that the estimate cannot tell from 0 is left
    out, which makes the problem a non-convex one for the planner.
    """
    experiment = build_experiment(config, algorithm=config.outline())  # a plan needs no learning rates
    found = estimated_constants(
        experiment.model, experiment.dataset, experiment.clients, experiment.x0, budget=budget, progress=progress
    )
    constants = {name: getattr(found, name).value for name in ("L", "sigma", "L_sigma", "delta")}
    if found.mu and found.mu.low > 0:
        constants["mu"] = min(found.mu.value, found.L.value)
    return Problem(**complete(_sizes(experiment) | constants | dict(given))), found


def anchored_advice(config: Config, problem: Problem, found: Estimates) -> tuple[Rates, AnchoredAdvice]:
    """What anchored momentum should be set to at the config's learning rates, which come with it."""
    method = config.outline()
    rates = Rates(*(float(getattr(method, name, default)) for name, default in (("eta_l", 0.03), ("eta_s", 1.0))))
    return rates, advise(problem, found.heterogeneity.value, rates)


def complete(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values, if nothing that is needed is missing among them."""
    if lacking := missing(values):
        raise FedamdError(f"a plan needs {', '.join(lacking)} as well; --estimate CONFIG finds all but --epsilon")
    return values


def missing(values: Mapping[str, Any]) -> list[str]:
    """The flags of what a plan needs and is not among the values."""
    return [flag for name, flag in NEEDED.items() if values.get(name) is None]


def _sizes(experiment: Experiment) -> dict[str, int]:
    smallest = min(experiment.clients.sizes)
    sizes = {"M": experiment.config.clients, "A": experiment.config.cohort, "n": smallest, "d": len(experiment.x0)}
    for option, name in SIZES.items():
        value = getattr(experiment.algorithm, option, None)
        if value is not None:
            sizes[name] = smallest if value == "full" else value
    return sizes
