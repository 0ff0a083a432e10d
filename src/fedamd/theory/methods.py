"""Table 1 of the paper as data: how many rounds each method needs to reach ε, and what a round costs.

Each expression is an O(): its hidden constant is set to 1, so it ranks methods and does not predict a number of rounds.
They are written in the paper's symbols; its L and F(x_0) − F*, hidden as constants, are 1 in the units used here
(`Problem.gradient_epsilon`), and σ² stands for σ²/b', the noise of a small batch (Table 1 has b' = 1).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from fedamd.theory import constant, constant_pl, costs, sequential
from fedamd.theory.costs import CostFunction
from fedamd.theory.problem import Problem

Rounds = Callable[[Problem], float]


@dataclass(frozen=True)
class Table1Method:
    """A row of Table 1."""

    key: str
    name: str
    reference: str
    partial: bool  # works when only A < M clients take part
    nonconvex: Rounds
    pl: Rounds | None  # None: the paper has no rate; may be NaN where the expression is void
    cost: CostFunction
    start_up: CostFunction

    def rounds(self, problem: Problem) -> float | None:
        """Rounds to ε for the problem's class (PL where μ is given); None where Table 1 has no rate."""
        if problem.mu is None:
            return self.nonconvex(problem)
        return None if self.pl is None else self.pl(problem)


def minibatch_sgd(problem: Problem) -> float:
    """1/(M·K·ε²) + 1/ε."""
    epsilon = problem.gradient_epsilon
    return 1 / (problem.M * problem.K * epsilon**2) + 1 / epsilon


def minibatch_sgd_pl(problem: Problem) -> float:
    """σ²/(μ·M·K·ε) + (1/μ)·log(1/(με)); strongly convex."""
    epsilon, mu = problem.value_epsilon, problem.relative_mu
    return problem.relative_noise / (mu * problem.M * problem.K * epsilon) - math.log(mu * epsilon) / mu


def fedavg(problem: Problem) -> float:
    """K/(A·ε²) + 1/ε."""
    epsilon = problem.gradient_epsilon
    return problem.K / (problem.A * epsilon**2) + 1 / epsilon


def fedavg_pl(problem: Problem) -> float:
    """(1 + σ²/K)/(μ·A·ε) + sqrt(1 + σ²/K)/(μ·√ε) + (1/μ)·log(1/ε)."""
    epsilon, mu = problem.value_epsilon, problem.relative_mu
    spread = 1 + problem.relative_noise / problem.K
    return (spread / (problem.A * epsilon) + math.sqrt(spread / epsilon) - math.log(epsilon)) / mu


def scaffold(problem: Problem) -> float:
    """σ²/(A·K·ε²) + (M/A)^{2/3}/ε."""
    epsilon = problem.gradient_epsilon
    sampling = math.pow(problem.M / problem.A, 2 / 3)
    return problem.relative_noise / (problem.A * problem.K * epsilon**2) + sampling / epsilon


def scaffold_pl(problem: Problem) -> float:
    """σ²/(μ·A·K·ε) + (M/A + 1/μ)·log(Mμ/(Aε)); strongly convex. NaN where the logarithm is not positive."""
    epsilon, mu, ratio = problem.value_epsilon, problem.relative_mu, problem.M / problem.A
    progress = math.log(ratio * mu / epsilon)
    if progress <= 0:
        return math.nan
    return problem.relative_noise / (mu * problem.A * problem.K * epsilon) + (ratio + 1 / mu) * progress


def bvr_l_sgd(problem: Problem) -> float:
    """1/(M·K·ε^{3/2}) + 1/ε."""
    epsilon = problem.gradient_epsilon
    return 1 / (problem.M * problem.K * math.pow(epsilon, 1.5)) + 1 / epsilon


def vr_marina(problem: Problem) -> float:
    """σ/(M·ε^{3/2}) + σ²/(M·ε) + 1/ε."""
    epsilon, noise = problem.gradient_epsilon, problem.relative_noise
    return math.sqrt(noise) / (problem.M * math.pow(epsilon, 1.5)) + noise / (problem.M * epsilon) + 1 / epsilon


def vr_marina_pl(problem: Problem) -> float:
    """(σ²/(μ·M·ε) + σ/(μ^{3/2}·M·√ε) + 1/μ)·log(1/ε)."""
    epsilon, mu, noise = problem.value_epsilon, problem.relative_mu, problem.relative_noise
    refresh = noise / (problem.M * epsilon) + math.sqrt(noise / (mu * epsilon)) / problem.M
    return (refresh + 1) / mu * -math.log(epsilon)


def fedamd_sequential(problem: Problem) -> float:
    """M/(A·ε) at τ = 2; another τ multiplies it by the ratio of Theorem 4.6's rounds."""
    return sequential.optimal_rounds(problem) * sequential.slowdown(problem)


def fedamd_constant(problem: Problem) -> float:
    """M/(A·ε) at p*; another p multiplies it by the ratio of Theorem 4.8's rounds."""
    return constant.optimal_rounds(problem) * constant.slowdown(problem)


def fedamd_constant_pl(problem: Problem) -> float:
    """(1/μ + M/(μ²A) + M/A)·log(1/ε) at p*; another p multiplies it by the ratio of Theorem 4.11's rounds."""
    return constant_pl.optimal_rounds(problem) * constant_pl.slowdown(problem)


SEQUENTIAL = Table1Method(
    "fedamd-sequential",
    "FedAMD (sequential)",
    "Wu et al., 2023",
    True,
    fedamd_sequential,
    None,
    costs.fedamd_sequential,
    costs.large_batches_everywhere,
)
CONSTANT = Table1Method(
    "fedamd-constant",
    "FedAMD (constant)",
    "Wu et al., 2023",
    True,
    fedamd_constant,
    fedamd_constant_pl,
    costs.fedamd_constant,
    costs.large_batches_everywhere,
)
MINIBATCH_SGD = Table1Method(
    "minibatch-sgd",
    "Minibatch SGD",
    "Wang & Srebro, 2019; Woodworth et al., 2020",
    False,
    minibatch_sgd,
    minibatch_sgd_pl,
    costs.minibatch_sgd,
    costs.no_start_up,
)
FEDAVG = Table1Method(
    "fedavg",
    "FedAvg",
    "Yang et al., 2021; Karimireddy et al., 2020a",
    True,
    fedavg,
    fedavg_pl,
    costs.fedavg,
    costs.no_start_up,
)
SCAFFOLD = Table1Method(
    "scaffold",
    "SCAFFOLD",
    "Karimireddy et al., 2020b",
    True,
    scaffold,
    scaffold_pl,
    costs.scaffold,
    costs.large_batches_everywhere,
)
BVR_L_SGD = Table1Method(
    "bvr-l-sgd",
    "BVR-L-SGD",
    "Murata & Suzuki, 2021",
    False,
    bvr_l_sgd,
    None,
    costs.bvr_l_sgd,
    costs.no_start_up,
)
VR_MARINA = Table1Method(
    "vr-marina",
    "VR-MARINA",
    "Gorbunov et al., 2021",
    False,
    vr_marina,
    vr_marina_pl,
    costs.vr_marina,
    costs.large_batches_everywhere,
)
TABLE1 = (MINIBATCH_SGD, FEDAVG, SCAFFOLD, BVR_L_SGD, VR_MARINA, SEQUENTIAL, CONSTANT)
