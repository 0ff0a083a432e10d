"""Learning rates by theory: what `eta_l = "theory"` and `eta_s = "theory"` stand for in a run."""

import math
from typing import NamedTuple

from fedamd.errors import FedamdError
from fedamd.theory import constant, constant_pl, sequential
from fedamd.theory.problem import Rates, Setting

ROUNDING = 1 + 1e-12  # a rate that is the limit but for floating-point error is within it


class Completed(NamedTuple):
    """Both learning rates, and a sentence where the theorem does not cover them."""

    rates: Rates
    beyond: str | None


def complete_rates(
    schedule: str, setting: Setting, eta_l: float | None = None, eta_s: float | None = None
) -> Completed:
    """Both rates where one is given: a theorem fixes their product, and the largest η_l, so the other one follows.

    With neither given these are `theory_rates`.
    """
    if eta_l is None and eta_s is None:
        return Completed(theory_rates(schedule, setting), None)
    product, limit = _product(schedule, setting), setting.local_limit
    if eta_l is not None:
        local = eta_l
        cause = f"eta_l = {eta_l:g} is above"
    else:
        local = product / (eta_s or math.nan)
        cause = f"eta_s = {eta_s:g} leaves eta_l = {local:.4g}, above"
    if not (math.isfinite(local) and local > 0):
        raise FedamdError("learning rates by theory: the rate that is given must be a positive number")
    beyond = (
        f"{cause} the theorem's limit of {limit:.4g}: nothing is proved for it" if local > limit * ROUNDING else None
    )
    return Completed(Rates(local, product / local if eta_s is None else eta_s), beyond)


def theory_rates(schedule: str, setting: Setting) -> Rates:
    """η_l and η_s of the theorem for this schedule ("constant" or "sequential"), the largest it admits.

    Constant p: Theorem 4.8, or 4.11 where μ is given. Sequential: Theorem 4.6, which makes no use of μ.
    """
    _known(schedule)
    if schedule == "sequential":
        return sequential.rates(setting)
    violated = constant.violations(setting)
    if violated:
        raise FedamdError("learning rates by theory: " + "; ".join(violated))
    return constant.rates(setting) if setting.mu is None else constant_pl.rates(setting)


def _product(schedule: str, setting: Setting) -> float:
    _known(schedule)
    if schedule == "sequential":
        return sequential.product(setting)
    return constant.product(setting) if setting.mu is None else constant_pl.product(setting)


def _known(schedule: str) -> None:
    if schedule not in ("constant", "sequential"):
        raise FedamdError(f'schedule "{schedule}" has no theorem: choose "constant" or "sequential"')
