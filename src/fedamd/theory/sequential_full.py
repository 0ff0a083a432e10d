"""FedAMD with the sequential schedule when all clients take part (A = M): Theorem 4.4 and Corollary 4.5.

The three `..._large_batch` functions are the three regimes of the corollary; their O() has its hidden constant set to
1, in the units L = F(x_0) − F* = 1. `bound` carries the constants of the proof (Appendix).
"""

import math

from fedamd.errors import FedamdError
from fedamd.theory.problem import Problem, Rates, Setting, whole


def rates(setting: Setting) -> Rates:
    """The largest η_l ≤ min(1/(6√2·K·L), sqrt(b'/K)/(2√3·L_σ)) and then η_s from η_s·η_l ≤ 1/(6√6·K·L·τ)."""
    _everyone(setting)
    eta_l = 1 / (6 * math.sqrt(2) * setting.K * setting.L)
    if setting.L_sigma > 0:
        eta_l = min(eta_l, math.sqrt(setting.b_small / setting.K) / (2 * math.sqrt(3) * setting.L_sigma))
    return Rates(eta_l, 1 / (6 * math.sqrt(6) * setting.K * setting.L * setting.tau * eta_l))


def bound(problem: Problem, rates: Rates, T: int, b: int) -> float:
    """(1/T)·Σ‖∇F(x_t)‖² ≤ 4·(F(x_0) − F*)/(η_s·η_l·K·T) + 16·η_l·L·K·(2η_s + 3·η_l·K·L)·1[b < n]·σ²/(M·b)."""
    _everyone(problem)
    eta_l, eta_s = rates
    noise = 16 * eta_l * problem.L * problem.K * (2 * eta_s + 3 * eta_l * problem.K * problem.L)
    return 4 * problem.delta / (eta_s * eta_l * problem.K * T) + noise * problem.noise_floor(b)


def unit_large_batch(problem: Problem) -> tuple[float, Rates]:
    """b = O(1): T = σ²/(M·ε²) with η_l = (1/K)·(M/(σ²T))^{1/4}, η_s = (M/(σ²T))^{1/4}."""
    _everyone(problem)
    T = _noise(problem) / (problem.M * problem.gradient_epsilon**2)
    eta_s = (problem.M / (_noise(problem) * T)) ** 0.25
    return T, _unscaled(problem, eta_s / problem.K, eta_s)


def step_large_batch(problem: Problem) -> tuple[float, Rates]:
    """b = O(K): T = σ²/(M·K·ε²) with η_l = 1/(√T·K·σ), η_s = sqrt(K·M)."""
    _everyone(problem)
    T = _noise(problem) / (problem.M * problem.K * problem.gradient_epsilon**2)
    return T, _unscaled(problem, 1 / (math.sqrt(T * _noise(problem)) * problem.K), math.sqrt(problem.K * problem.M))


def full_large_batch(problem: Problem) -> tuple[float, Rates]:
    """b = min(n, σ²/(Mε)): T = τ/ε with η_l = 1/(6√2·K·L), η_s = 1/(√3·τ), for K ≥ L_σ²/(6·b'·L²)."""
    _everyone(problem)
    needed = least_steps(problem)
    if needed > problem.K:
        raise FedamdError(f"K = {problem.K} is below L_sigma²/(6·b'·L²): Corollary 4.5 needs K = {needed} local steps")
    eta_l = 1 / (6 * math.sqrt(2) * problem.K * problem.L)
    return problem.tau / problem.gradient_epsilon, Rates(eta_l, 1 / (math.sqrt(3) * problem.tau))


def least_steps(setting: Setting) -> int:
    """K = L_σ²/(6·b'·L²): the fewest local steps for which the third regime's η_l is admissible."""
    return whole((setting.L_sigma / setting.L) ** 2 / (6 * setting.b_small))


def _noise(problem: Problem) -> float:
    """σ² in the units where L = F(x_0) − F* = 1."""
    if problem.sigma == 0:
        raise FedamdError("this regime of Corollary 4.5 is about noise: it needs sigma above 0")
    return problem.relative_noise * problem.b_small


def _unscaled(problem: Problem, eta_l: float, eta_s: float) -> Rates:
    """Rates of the problem scaled to L = F(x_0) − F* = 1, in its own units: a step size scales as 1/L."""
    return Rates(eta_l / problem.L, eta_s)


def _everyone(setting: Setting) -> None:
    if setting.A != setting.M:
        raise FedamdError(
            f"Theorem 4.4 is for full participation: A is {setting.A}, it would have to be M = {setting.M}"
        )
