"""Learning rates left to theory: `eta_l` or `eta_s = "theory"` of FedAMD become numbers before a run begins.

The run's folder then has the numbers in config.toml, so that resuming never looks for them again, and where they came
from in environment.json.
"""

import logging
from typing import Any

from torch import Tensor, nn

from fedamd.algorithms import FedAMD
from fedamd.data.base import Clients, Dataset
from fedamd.errors import FedamdError
from fedamd.runs.config import Config, load_config
from fedamd.runs.constants import estimated_constants, exact_constants
from fedamd.theory.problem import Setting
from fedamd.theory.resolve import complete_rates

log = logging.getLogger(__name__)

Facts = dict[str, Any]  # what theory settled, for the records


def resolve_theory(
    config: Config, model: nn.Module, dataset: Dataset, clients: Clients, x0: Tensor
) -> tuple[Config, Facts]:
    """The config with numbers for the rates it leaves to theory, and what is to be remembered of that.

    L and L_σ are the problem's own where they are known, else estimates at x_0. p = "optimal" stays as it is, since
    the method finds the number by itself; it is remembered too.
    """
    algorithm = config.outline()
    if not isinstance(algorithm, FedAMD):
        return config, {}
    facts: Facts = {"p": algorithm.schedule(config.cohort)(0)} if _optimal(algorithm) else {}
    if not config.by_theory:
        return config, facts
    _refuse_without_theorem(algorithm)
    exact = exact_constants(model, dataset)
    if exact:
        L, L_sigma = exact.L, exact.L_sigma
    else:
        estimates = estimated_constants(model, dataset, clients, x0)
        L, L_sigma = estimates.L.value, estimates.L_sigma.value
    setting = _setting(config, algorithm, min(clients.sizes), L, L_sigma)
    given = {name: getattr(algorithm, name) for name in ("eta_l", "eta_s") if name not in config.by_theory}
    completed = complete_rates("constant" if algorithm.tau is None else "sequential", setting, **given)
    if completed.beyond:
        log.warning("learning rates by theory: %s", completed.beyond)
        facts |= {"beyond": completed.beyond}
    chosen = {name: rate for name, rate in completed.rates._asdict().items() if name in config.by_theory}
    settled = load_config(config.plain(), {f"algorithm.{name}": rate for name, rate in chosen.items()})
    return settled, facts | chosen | {"L": L, "L_sigma": L_sigma, "constants": "exact" if exact else "estimated"}


def _setting(config: Config, algorithm: FedAMD, smallest: int, L: float, L_sigma: float) -> Setting:
    constant = isinstance(algorithm.p, float | int)
    return Setting(
        M=config.clients,
        A=config.cohort,
        K=algorithm.steps,
        b_small=smallest if algorithm.small_batch == "full" else min(algorithm.small_batch, smallest),
        L=L,
        L_sigma=L_sigma,
        mu=None if algorithm.mu is None else algorithm.mu * L,
        p=float(algorithm.p) if constant else None,  # type: ignore[arg-type]
        c=algorithm.c,
        tau=algorithm.tau or 2,
    )


def _optimal(algorithm: FedAMD) -> bool:
    return algorithm.p in (None, "optimal") and algorithm.tau is None and algorithm.pattern is None


def _refuse_without_theorem(algorithm: FedAMD) -> None:
    """The theorems are about Algorithm 1 with a constant p or a period τ, and about F as the mean over clients."""
    reason = None
    if algorithm.pattern is not None or callable(algorithm.p):
        reason = "the theorems know a constant p and a period tau, no other schedule"
    elif algorithm.server != "plain":
        reason = f'the theorems are about server = "plain", not "{algorithm.server}"'
    elif algorithm.weights != "uniform":
        reason = 'the theorems are about weights = "uniform", where every client weighs the same'
    if reason:
        raise FedamdError(f"learning rates by theory: {reason}; give numbers for eta_l and eta_s")
