"""FedAMD's anchor probabilities {p_t}: constant, sequential, a repeating pattern, or any function of the round."""

from collections.abc import Callable, Sequence

from fedamd.errors import FedamdError

Schedule = Callable[[int], float]  # t → p_t


def constant(p: float) -> Schedule:
    """p_t = p in (0, 1): p = 1 would never move the model, p = 0 never refresh the cache."""
    if not 0 < p < 1:
        raise FedamdError(
            f"p must lie strictly between 0 and 1, not {p}: with p = 1 the model never moves, with p = 0 the cache "
            "is never refreshed (for rounds of only anchors or only miners use tau or pattern)"
        )
    return lambda _: p


def sequential(tau: int) -> Schedule:
    """p_t = 1 when t mod τ = 0, else 0."""
    if isinstance(tau, bool) or not isinstance(tau, int) or tau < 2:
        raise FedamdError(f"tau must be a whole number of at least 2, not {tau!r}: with tau = 1 the model never moves")
    return lambda t: float(t % tau == 0)


def pattern(values: str | Sequence[float]) -> Schedule:
    """The probabilities of one period, repeated: "0,1" is τ = 2 as the paper's figures write it."""
    if isinstance(values, str):
        try:
            period = [float(value) for value in values.strip(" {}[]").split(",")]
        except ValueError:
            raise FedamdError(
                f'pattern must be probabilities with commas between them ("0,0,1"), not {values!r}'
            ) from None
    else:
        period = list(values)
    if not period or not all(0 <= p <= 1 for p in period):
        raise FedamdError(f"pattern must hold probabilities between 0 and 1, not {values!r}")
    if all(p == 1 for p in period) or all(p == 0 for p in period):
        raise FedamdError(
            f"pattern {values!r} has only anchors or only miners: the model would never move or the cache never refresh"
        )
    return lambda t: period[t % len(period)]


def checked(function: Schedule) -> Schedule:
    """A user's own function of the round, its values checked as they come."""

    def probability(t: int) -> float:
        p = float(function(t))
        if not 0 <= p <= 1:
            raise FedamdError(f"the schedule of p gave {p} for round {t}: a probability lies between 0 and 1")
        return p

    return probability
