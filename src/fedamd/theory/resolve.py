"""Learning rates by theory: what `eta_l = "theory"` and `eta_s = "theory"` stand for in a run."""

from fedamd.errors import FedamdError
from fedamd.theory import constant, constant_pl, sequential
from fedamd.theory.problem import Rates, Setting


def theory_rates(schedule: str, setting: Setting) -> Rates:
    """η_l and η_s of the theorem for this schedule ("constant" or "sequential"), the largest it admits.

    Constant p: Theorem 4.8, or 4.11 where μ is given. Sequential: Theorem 4.6, which makes no use of μ.
    """
    if schedule == "sequential":
        return sequential.rates(setting)
    if schedule != "constant":
        raise FedamdError(f'schedule "{schedule}" has no theorem: choose "constant" or "sequential"')
    violated = constant.violations(setting)
    if violated:
        raise FedamdError("learning rates by theory: " + "; ".join(violated))
    return constant.rates(setting) if setting.mu is None else constant_pl.rates(setting)
