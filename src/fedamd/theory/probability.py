"""The anchor probability: the optimal constant p* (Corollaries 4.9 and 4.12), and 1 − p^A without cancellation."""

import math

from fedamd.errors import FedamdError
from fedamd.theory.problem import Setting


def optimal_nonconvex(A: int, c: float = 1.0) -> float:
    """p* = (1/c)·(2/(A+2))^{1/A}: for c = 1 the maximiser of p·sqrt(1 − p^A)."""
    _check(A, c)
    return math.exp(-math.log1p(A / 2) / A) / c


def optimal_pl(A: int, mu: float, c: float = 1.0) -> float:
    """p* = (1/c)·q^{1/A}, q = 1 + (A+1)/(2μ²) − sqrt(((A+1)/(2μ²))² + A/μ²), for a problem scaled to L = 1.

    For c = 1 it minimises (1/p)·(1/(μ²(1 − p^A)) + 1). As printed, q loses every digit for small μ; it is the smaller
    root of μ²q² − (A + 1 + 2μ²)q + (1 + μ²) = 0, and the quotient form of that root has no subtraction.
    """
    _check(A, c)
    if not (math.isfinite(mu) and mu > 0):
        raise FedamdError(f"mu is {mu}: a PL constant is a positive number")
    square = mu * mu
    q = 2 * (1 + square) / (A + 1 + 2 * square + math.sqrt((A + 1) ** 2 + 4 * square * A))
    return math.pow(q, 1 / A) / c


def anchor_probability(setting: Setting) -> float:
    """The p of a constant schedule: the one given, else p*/c for the class of problem (PL where μ is given)."""
    if setting.p is not None:
        return setting.p
    if setting.mu is None:
        return optimal_nonconvex(setting.A, setting.c)
    return optimal_pl(setting.A, setting.relative_mu, setting.c)


def some_miner(p: float, A: int) -> float:
    """1 − p^A: the probability that a round has a miner, hence moves the model."""
    return -math.expm1(A * math.log(p))


def _check(A: int, c: float) -> None:
    if A < 1:
        raise FedamdError(f"A is {A}: a cohort has 1 client or more")
    if not (math.isfinite(c) and c >= 1):
        raise FedamdError(f"c is {c}: it divides p*, give 1 or more")
