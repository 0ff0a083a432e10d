"""FedAMD with a constant anchor probability p under the PL condition: Theorem 4.11 and Corollary 4.12.

`rounds` is an O() with its hidden constant set to 1, in the units L = F(x_0) − F* = 1 (so its μ is μ/L); `bound` and
`proved` carry the constants of the proof (Appendix). The condition on K is that of `constant.violations`.
"""

import math
from dataclasses import replace

from fedamd.theory.constant import local_rate
from fedamd.theory.probability import anchor_probability, some_miner
from fedamd.theory.problem import Problem, Proved, Rates, Setting, whole

NOISE = 6.0  # the proof's factor of (1/μ)·1[b < n]·σ²/(Mb)


def rates(setting: Setting) -> Rates:
    """η_l = 1/(2√6·K·L), η_s = min(2√6·L·A·p/(M·μ·(1 − p^A)), 2√6/(1 + 16·M·L/(μ·A·p)))."""
    return Rates(local_rate(setting), product(setting) / local_rate(setting))


def product(setting: Setting) -> float:
    """η_s·η_l = min(A·p/(M·K·μ·(1 − p^A)), 1/(K·L·(1 + 16·M·L/(μ·A·p)))), which is all that the proof fixes of them."""
    p, mu = anchor_probability(setting), setting.relative_mu
    refreshed = setting.A * p / setting.M  # share of the cache that a round renews
    factor = min(refreshed / (mu * some_miner(p, setting.A)), 1 / (1 + 16 / (mu * refreshed)))
    return factor / (setting.K * setting.L)


def optimal_rates(setting: Setting) -> Rates:
    """Corollary 4.12, for p = p*/c: η_s = min(√6·A·L/(M·μ·c), 2√6/(1 + 32·M·c·L/(μ·A))).

    The paper prints the second term for L = 1; the L here is the one of Theorem 4.11.
    """
    ratio = setting.M * setting.c / setting.A
    mu = setting.relative_mu
    return Rates(local_rate(setting), min(math.sqrt(6) / (ratio * mu), 2 * math.sqrt(6) / (1 + 32 * ratio / mu)))


def rounds(problem: Problem) -> float:
    """T = (1/(μ(1 − p^A)))·(1 + M/(μAp) + Mμ(1 − p^A)/(Ap))·log(1/ε)."""
    p, mu = anchor_probability(problem), problem.relative_mu
    moves, refreshed = some_miner(p, problem.A), problem.A * p / problem.M
    return (1 + 1 / (mu * refreshed) + mu * moves / refreshed) / (mu * moves) * -math.log(problem.value_epsilon)


def slowdown(problem: Problem) -> float:
    """T(p)/T(p*): how many times the rounds of the optimum (c = 1) the p of this problem needs."""
    return rounds(problem) / rounds(replace(problem, p=None, c=1.0))


def optimal_rounds(problem: Problem) -> float:
    """Corollary 4.12: T = (1/μ + M/(μ²A) + M/A)·log(1/ε) at p*."""
    mu, ratio = problem.relative_mu, problem.M / problem.A
    return (1 / mu + ratio / mu**2 + ratio) * -math.log(problem.value_epsilon)


def optimal_gradients(problem: Problem) -> float:
    """Corollary 4.12, online, b' = 1: (A/μ + M/μ² + M)·(σ²/(Mμε) + K)·log(1/ε) samples in all."""
    batch = problem.sigma**2 / (problem.M * problem.relative_mu * problem.L * problem.epsilon)  # the same in all units
    return problem.A * optimal_rounds(problem) * (batch + problem.K)


def bound(problem: Problem, T: int, b: int) -> float:
    """F(x_T) − F* ≤ (1 − ½·μ·K·(1 − p^A)·η_s·η_l)^T·(F(x_0) − F*) + (6/μ)·1[b < n]·σ²/(M·b)."""
    return math.exp(T * math.log1p(-_contraction(problem))) * problem.delta + _floor(problem, b)


def proved(problem: Problem) -> Proved | None:
    """The rounds after which `bound` is at most ε; None where the given b leaves noise above ε for ever."""
    b = problem.proof_batch(NOISE / (problem.relative_mu * problem.L))
    room = problem.epsilon - _floor(problem, b)
    if room <= 0:
        return None
    return Proved(b, whole(math.log(room / problem.delta) / math.log1p(-_contraction(problem))))


def _contraction(problem: Problem) -> float:
    moves = some_miner(anchor_probability(problem), problem.A)
    return problem.relative_mu * problem.L * problem.K * moves * product(problem) / 2


def _floor(problem: Problem, b: int) -> float:
    return NOISE / (problem.relative_mu * problem.L) * problem.noise_floor(b)
