"""What theory says of a federation before its constants are known: all that depends on M, A and the schedule alone."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedamd.theory import constant, sequential
from fedamd.theory.costs import fedamd_constant, fedamd_sequential
from fedamd.theory.probability import anchor_probability, some_miner
from fedamd.theory.problem import Problem, countable

# Stands for what is not given: none of the numbers below depends on it. (L_σ = 0 makes η_l's limit 1/(2√6·K·L).)
_UNIT: dict[str, Any] = {"K": 1, "b_small": 1, "L": 1.0, "L_sigma": 0.0, "sigma": 0.0, "delta": 1.0, "epsilon": 0.5}
_USED = ("M", "A", "p", "c", "tau")


def outline(given: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """For both of FedAMD's schedules, what M, A and p (or τ) settle.

    η_s goes with the largest η_l that the theorems admit for a large enough K, 1/(2√6·K·L); their product times K·L is
    given beside it. `given` has M and A at least, by the names of `Problem`.
    """
    with countable():
        return _settled(Problem(**_UNIT, **{name: given[name] for name in _USED if name in given}))


def _settled(problem: Problem) -> dict[str, dict[str, float]]:
    exact = replace(problem, version="proved")
    p = anchor_probability(problem)
    return {
        "constant": {
            "p": p,
            "anchors a round": problem.A * p,
            "rounds that move the model": some_miner(p, problem.A),
            "vectors a round": fedamd_constant(problem).vectors,
            "eta_s as printed": constant.rates(problem).eta_s,
            "eta_s as proved": constant.rates(exact).eta_s,
        },
        "sequential": {
            "tau": float(problem.tau),
            "vectors a round": fedamd_sequential(problem).vectors,
            "eta_s": sequential.product(problem) * 2 * math.sqrt(6),
        },
    }
