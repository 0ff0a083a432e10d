"""Hyper-parameters left to theory, as in `eta_l = "theory"`, become numbers before a run begins.

The method's own theory (`Algorithm.by_theory`) finds them. The run's folder then has the numbers in config.toml, so
that resuming never looks for them again, and where they came from in environment.json.
"""

import logging
from typing import Any

from torch import Tensor, nn

from fedamd.algorithms.by_theory import WORDS, KnownProblem, Smoothness, Version
from fedamd.data.base import Clients, Dataset
from fedamd.errors import FedamdError
from fedamd.runs.config import Config, load_config
from fedamd.runs.constants import estimated_constants, exact_constants

log = logging.getLogger(__name__)

Facts = dict[str, Any]  # what theory settled, for the records


def resolve_theory(
    config: Config, model: nn.Module, dataset: Dataset, clients: Clients, x0: Tensor
) -> tuple[Config, Facts]:
    """The config with numbers for what it leaves to theory, and what is to be remembered of that.

    What the method works out by itself stays in the config as it is, and is remembered too.
    """
    algorithm = config.outline()
    facts: Facts = dict(algorithm.worked_out(config.cohort))
    if not config.by_theory:
        return config, facts

    def smoothness() -> Smoothness:
        if exact := exact_constants(model, dataset):
            return Smoothness(exact.L, exact.L_sigma)
        estimates = estimated_constants(model, dataset, clients, x0)
        return Smoothness(estimates.L.value, estimates.L_sigma.value, exact=False)

    problem = KnownProblem(config.clients, config.cohort, clients.sizes, smoothness, _version(config))
    found = algorithm.by_theory(config.by_theory, problem)
    if missing := [name for name in config.by_theory if name not in found.values]:
        raise FedamdError(f"the theory of {config.algorithm.name} gave no {', '.join(missing)}; give a number")
    if found.beyond:
        log.warning("by theory: %s", found.beyond)
        facts |= {"beyond": found.beyond}
    chosen = {name: found.values[name] for name in config.by_theory}
    settled = load_config(config.plain(), {f"algorithm.{name}": value for name, value in chosen.items()})
    return settled, facts | chosen | _origin(problem)


def _version(config: Config) -> Version:
    words = sorted({str(config.algorithm.options[name]) for name in config.by_theory})
    if len(words) > 1:
        raise FedamdError(
            f'algorithm: {" and ".join(config.by_theory)} are left to "{words[0]}" and "{words[1]}": use one of the two'
        )
    return WORDS[words[0]]


def _origin(problem: KnownProblem) -> Facts:
    """Where the numbers came from; smoothness only where the method asked for it."""
    facts: Facts = {"version": problem.version}
    if "smoothness" in vars(problem):
        L, L_sigma, exact = problem.smoothness
        facts |= {"L": L, "L_sigma": L_sigma, "constants": "exact" if exact else "estimated"}
    return facts
