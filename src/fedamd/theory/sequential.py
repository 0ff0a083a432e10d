"""FedAMD with the sequential schedule of period τ: Theorem 4.6 (any cohort), Corollary 4.7.

Theorem 4.4 and Corollary 4.5, for full participation only, are in `sequential_full`. `rounds` is an O() with its hidden
constant set to 1, in the units L = F(x_0) − F* = 1; `bound` and `proved` carry the constants of the proof (Appendix).
"""

import math
from dataclasses import replace

from fedamd.theory.problem import Problem, Proved, Rates, Setting, whole

NOISE = 8.0  # the proof's factor of 1[b < n]·σ²/(Mb)


def rates(setting: Setting) -> Rates:
    """The largest η_l ≤ min(1/(2√6·K·L), sqrt(b'/K)/(4√3·L_σ)), and η_s from η_s·η_l = (1/(K·L))·(1 + 2Mτ/A)^{−1}."""
    return Rates(setting.local_limit, product(setting) / setting.local_limit)


def product(setting: Setting) -> float:
    """η_s·η_l = (1/(K·L))·(1 + 2Mτ/A)^{−1}, which is all that the theorem fixes of the two."""
    return 1 / (setting.K * setting.L * _staleness(setting))


def rounds(problem: Problem) -> float:
    """T = (1 + 2Mτ/A)·τ/(τ − 1)/ε: least for τ = 2."""
    return _staleness(problem) * problem.tau / (problem.tau - 1) / problem.gradient_epsilon


def slowdown(problem: Problem) -> float:
    """T(τ)/T(2): how many times the rounds of the optimum the τ of this problem needs."""
    return rounds(problem) / rounds(replace(problem, tau=2))


def optimal_rounds(problem: Problem) -> float:
    """Corollary 4.7 with τ = 2, as Table 1 has it: T = M/(A·ε)."""
    return problem.M / (problem.A * problem.gradient_epsilon)


def gradients(problem: Problem) -> float:
    """Corollary 4.7: M·b/ε + τ·M·K·b'/ε samples in all."""
    miners = problem.tau * problem.K * problem.b_small
    return problem.M * (problem.large_batch + miners) / problem.gradient_epsilon


def communication(problem: Problem) -> float:
    """Corollary 4.7: M·τ/(A·ε)."""
    return problem.M * problem.tau / (problem.A * problem.gradient_epsilon)


def bound(problem: Problem, T: int, b: int) -> float:
    """(1/N)·Σ‖∇F(x_t)‖² over the N miner rounds among the first T is at most
    4·(F(x_0) − F*)/(η_s·η_l·K·N) + 8·1[b < n]·σ²/(M·b).
    """
    miner_rounds = T - math.ceil(T / problem.tau)
    if miner_rounds == 0:
        return math.inf
    return _progress(problem) / miner_rounds + NOISE * problem.noise_floor(b)


def proved(problem: Problem) -> Proved | None:
    """The rounds after which `bound` is at most ε; None where the given b leaves noise above ε for ever."""
    b = problem.proof_batch(NOISE)
    room = problem.epsilon - NOISE * problem.noise_floor(b)
    if room <= 0:
        return None
    miner_rounds = whole(_progress(problem) / room)
    anchor_rounds = 1 + (miner_rounds - 1) // (problem.tau - 1)  # round 0, and one more after every τ − 1 miner rounds
    return Proved(b, miner_rounds + anchor_rounds)


def _staleness(setting: Setting) -> float:
    return 1 + 2 * setting.M * setting.tau / setting.A


def _progress(problem: Problem) -> float:
    return 4 * problem.delta / (product(problem) * problem.K)
