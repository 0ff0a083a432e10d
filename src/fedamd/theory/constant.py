"""FedAMD with a constant anchor probability p, non-convex objectives: Theorem 4.8 and Corollary 4.9.

`rounds` is an O() with its hidden constant set to 1, in the units L = F(x_0) − F* = 1; `bound` and `proved` carry the
constants of the proof (Appendix), in two versions, which `Setting.version` chooses between. The printed proof has two
slips. Its last line divides 3·σ²/(Mb) by ¼ and keeps the 3, where 12 stands; and with a = (M/(Ap))·sqrt(1 − p^A) the
printed η_s·η_l = 1/(K·L·(1 + 2a)) makes the step before it hold only where a·(1 − 2a) ≥ 0, that is a ≤ ½. With 2√2·a in
place of 2a it always holds. So "printed" is the theorem as the paper has it, and "proved" what its proof shows.
"""

import math
from dataclasses import replace

from fedamd.theory.probability import anchor_probability, some_miner
from fedamd.theory.problem import Problem, Proved, Rates, Setting, whole

NOISE = {"printed": 3.0, "proved": 12.0}  # the factor of 1[b < n]·σ²/(Mb)
STALENESS = {"printed": 2.0, "proved": 2 * math.sqrt(2)}  # the factor of a in 1/(η_s·η_l·K·L)


def least_steps(setting: Setting) -> int:
    """K ≥ max(1, 2·L_σ²/(b'·L²)): below it the learning rates of the theorem are not admissible."""
    return whole(2 * (setting.L_sigma / setting.L) ** 2 / setting.b_small)


def violations(setting: Setting) -> list[str]:
    """What Theorems 4.8 and 4.11 ask of the setting that it does not have."""
    needed = least_steps(setting)
    if needed <= setting.K:
        return []
    batch = whole(2 * (setting.L_sigma / setting.L) ** 2 / setting.K)
    return [f"K = {setting.K} is below 2·L_sigma²/(b'·L²) = {needed}: take K ≥ {needed}, or b' ≥ {batch}"]


def rates(setting: Setting) -> Rates:
    """η_l = 1/(2√6·K·L), η_s = 2√6/(1 + (2M/(Ap))·sqrt(1 − p^A)); as proved, with 2√2 in place of the last 2."""
    return Rates(local_rate(setting), product(setting) / local_rate(setting))


def product(setting: Setting) -> float:
    """η_s·η_l, which is all that the proof fixes of the two; η_l may be any number up to `Setting.local_limit`."""
    return 1 / (setting.K * setting.L * (1 + STALENESS[setting.version] * staleness(setting)))


def staleness(setting: Setting) -> float:
    """a = (M/(Ap))·sqrt(1 − p^A)."""
    p = anchor_probability(setting)
    return setting.M / (setting.A * p) * math.sqrt(some_miner(p, setting.A))


def local_rate(setting: Setting) -> float:
    """η_l = 1/(2√6·K·L), common to both classes of objectives."""
    return 1 / (2 * math.sqrt(6) * setting.K * setting.L)


def optimal_rates(setting: Setting) -> Rates:
    """Corollary 4.9, for p = p*/c: η_s = 2√6·A/(A + 3Mc), simpler and never above that of the printed theorem."""
    return Rates(local_rate(setting), 2 * math.sqrt(6) * setting.A / (setting.A + 3 * setting.M * setting.c))


def rounds(problem: Problem) -> float:
    """T = (1/ε)·(1/(1 − p^A) + M/(A·p·sqrt(1 − p^A)))."""
    p = anchor_probability(problem)
    moves = some_miner(p, problem.A)
    return (1 / moves + problem.M / (problem.A * p * math.sqrt(moves))) / problem.gradient_epsilon


def slowdown(problem: Problem) -> float:
    """T(p)/T(p*): how many times the rounds of the optimum (c = 1) the p of this problem needs."""
    return rounds(problem) / rounds(replace(problem, p=None, c=1.0))


def optimal_rounds(problem: Problem) -> float:
    """Corollary 4.9: T = M/(A·ε) at p*."""
    return problem.M / (problem.A * problem.gradient_epsilon)


def optimal_gradients(problem: Problem) -> float:
    """Corollary 4.9, online, b' = 1: σ²/ε² + M·K/ε samples in all."""
    noise = problem.relative_noise * problem.b_small
    return noise / problem.gradient_epsilon**2 + problem.M * problem.K / problem.gradient_epsilon


def bound(problem: Problem, T: int, b: int) -> float:
    """(1/T)·Σ‖∇F(x_t)‖² ≤ 4·(F(x_0) − F*)/(η_s·η_l·K·T·(1 − p^A)) + 3·1[b < n]·σ²/(M·b).

    As proved, 12 in place of 3.
    """
    return _progress(problem) / T + NOISE[problem.version] * problem.noise_floor(b)


def proved(problem: Problem) -> Proved | None:
    """The rounds after which `bound` is at most ε; None where the given b leaves noise above ε for ever."""
    noise = NOISE[problem.version]
    b = problem.proof_batch(noise)
    room = problem.epsilon - noise * problem.noise_floor(b)
    return Proved(b, whole(_progress(problem) / room)) if room > 0 else None


def _progress(problem: Problem) -> float:
    """The first term of `bound`, times T."""
    moves = some_miner(anchor_probability(problem), problem.A)
    return 4 * problem.delta / (product(problem) * problem.K * moves)
