"""The planner: for a problem, what every method of Table 1 would cost, ranked by what the user pays for.

Rounds are Table 1's O() with hidden constants set to 1: they compare methods. For FedAMD the appendix has all
constants, and `proved` says what is guaranteed with them. A method whose assumptions do not hold gets reasons instead
of numbers.
"""

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fedamd.errors import FedamdError
from fedamd.theory import constant, constant_pl, costs, sequential
from fedamd.theory.costs import BITS_PER_VALUE, Speeds
from fedamd.theory.methods import BVR_L_SGD, CONSTANT, SEQUENTIAL, TABLE1, VR_MARINA, Table1Method
from fedamd.theory.probability import anchor_probability
from fedamd.theory.problem import Problem, Proved, countable, whole
from fedamd.theory.resolve import theory_rates

COSTS = ("rounds", "gradients", "bits", "seconds")  # what a user may pay for


@dataclass(frozen=True)
class PlanEntry:
    """One method in a plan. Without violations it has numbers; bits need `d`, seconds need `d` and speeds."""

    method: str
    name: str
    violations: list[str]
    settings: dict[str, float] = field(default_factory=dict)
    rounds: int | None = None
    gradients: float | None = None  # samples, all clients, all rounds
    bits: float | None = None  # both directions, all clients, all rounds
    seconds: float | None = None
    start_up_gradients: float | None = None  # paid once before round 0 and, as in the paper, not in the totals
    start_up_bits: float | None = None
    proved: Proved | None = None  # FedAMD only: what the appendix's proofs show
    printed: Proved | None = None  # where the paper prints something else than its proof shows (Theorem 4.8)


@dataclass(frozen=True)
class Plan:
    """All methods, cheapest first, those that do not apply last."""

    problem: Problem
    cost: str  # one of COSTS
    entries: list[PlanEntry]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        entries = [
            asdict(entry)
            | {"proved": entry.proved and entry.proved._asdict(), "printed": entry.printed and entry.printed._asdict()}
            for entry in self.entries
        ]
        return {"problem": asdict(self.problem), "cost": self.cost, "entries": entries}


def plan(problem: Problem, cost: str = "rounds", speeds: Speeds | None = None) -> Plan:
    """Every method of Table 1 on this problem, sorted by `cost`."""
    if cost not in COSTS:
        raise FedamdError(f'cost "{cost}" is not known: choose one of {", ".join(COSTS)}')
    if cost in ("bits", "seconds") and problem.d is None:
        raise FedamdError(f"{cost} depend on the size of the model: give d, its number of parameters")
    if cost == "seconds" and speeds is None:
        raise FedamdError("seconds depend on the clients: give bandwidth (bits/s) and compute (samples/s)")
    with countable():
        entries = [evaluate(method, problem, speeds) for method in TABLE1]
    return Plan(problem, cost, sorted(entries, key=lambda entry: _price(entry, cost)))


def evaluate(method: Table1Method, problem: Problem, speeds: Speeds | None = None) -> PlanEntry:
    """One method on this problem."""
    violated = violations(method, problem)
    rounds = None if violated else method.rounds(problem)
    if rounds is None or math.isnan(rounds):
        return PlanEntry(method.key, method.name, violated or ["the bound is void here: its logarithm is not positive"])
    total = whole(rounds)
    per_round, start_up = method.cost(problem), method.start_up(problem)
    bits_per_vector = None if problem.d is None else BITS_PER_VALUE * problem.d
    return PlanEntry(
        method.key,
        method.name,
        [],
        settings=_settings(method, problem),
        rounds=total,
        gradients=total * per_round.samples,
        bits=bits_per_vector and total * per_round.vectors * bits_per_vector,
        seconds=total * per_round.seconds(speeds, problem.d) if speeds and problem.d else None,
        start_up_gradients=start_up.samples,
        start_up_bits=bits_per_vector and start_up.vectors * bits_per_vector,
        proved=_proved(method, replace(problem, version="proved")),
        printed=_proved(method, replace(problem, version="printed")) if _differs(method, problem) else None,
    )


def violations(method: Table1Method, problem: Problem) -> list[str]:
    """Why Table 1's rate does not apply to this method on this problem; empty where it does."""
    found = []
    if problem.mu is not None and method.pl is None:
        found.append("the paper has no rate for it under the PL condition")
    if not method.partial and problem.A < problem.M:
        found.append(f"needs all M = {problem.M} clients, the cohort is A = {problem.A}")
    if method in (SEQUENTIAL, CONSTANT):
        found += _batch_violations(problem)
    if method is CONSTANT:
        found += constant.violations(problem)
    return found


def _batch_violations(problem: Problem) -> list[str]:
    b, needed = problem.large_batch, problem.required_batch
    found = []
    if problem.b_small >= b:
        limit = "b" if problem.b else "a client has"
        found.append(f"b' = {problem.b_small} is not below the {b} samples {limit}: the theorem needs b' < b")
    if b < needed:
        found.append(f"b = {b} is too small for ε = {problem.epsilon:g}: the theorem needs b = {needed}")
    return found


def _settings(method: Table1Method, problem: Problem) -> dict[str, float]:
    """What the theory fixes for a method; the paper gives learning rates for FedAMD only."""
    if method is CONSTANT:
        return {
            "p": anchor_probability(problem),
            "b": problem.large_batch,
            **theory_rates("constant", problem)._asdict(),
            **_proved_rate(problem),
        }
    if method is SEQUENTIAL:
        return {"tau": problem.tau, "b": problem.large_batch, **theory_rates("sequential", problem)._asdict()}
    if method is BVR_L_SGD:
        return {"period": costs.bvr_l_sgd_period(problem), "b": problem.large_batch}
    if method is VR_MARINA:
        return {"p": costs.vr_marina_probability(problem), "b": problem.large_batch}
    return {}


def _proved_rate(problem: Problem) -> dict[str, float]:
    exact = replace(problem, version="proved")
    return {"eta_s as proved": constant.rates(exact).eta_s} if _differs(CONSTANT, problem) else {}


def _differs(method: Table1Method, problem: Problem) -> bool:
    """Whether what the paper prints and what its proof shows are different things."""
    return method is CONSTANT and problem.mu is None


def _proved(method: Table1Method, problem: Problem) -> Proved | None:
    if method is SEQUENTIAL:
        return sequential.proved(problem)
    if method is CONSTANT:
        return constant.proved(problem) if problem.mu is None else constant_pl.proved(problem)
    return None


def _price(entry: PlanEntry, cost: str) -> float:
    price = getattr(entry, cost)
    return math.inf if price is None else float(price)
