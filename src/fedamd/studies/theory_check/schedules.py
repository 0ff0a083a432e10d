"""Studies of FedAMD's schedule and cohort on the non-convex problem: rounds to ε over p, over τ and over A."""

import math
from collections.abc import Mapping

from fedamd.studies.theory_check.problems import SyntheticProblem
from fedamd.studies.theory_check.protocol import (
    BOUNDED,
    TAIL,
    A,
    M,
    Results,
    Scale,
    cells,
    fedamd,
    fewest,
    measured_line,
    planner_problem,
    ratio,
    worst,
)
from fedamd.studies.theory_check.results import Expectation, Figure, Line, StudyResult, TableValue
from fedamd.studies.theory_check.trajectory import RoundsToAccuracy, rounds_to, slope
from fedamd.theory import constant, sequential
from fedamd.theory.probability import optimal_nonconvex
from fedamd.theory.problem import Proved

STAR = round(optimal_nonconvex(A), 3)
PROBABILITIES = (0.2, 0.35, 0.5, 0.65, STAR, 0.87, 0.93, 0.97)
PERIODS = (2, 3, 4, 6, 8)
COHORTS = (2, 3, 4, 6, 12)


class OverP:
    """Does p* need the fewest rounds?"""

    name, problem = "p", TAIL
    near_best = Expectation("rounds at p* over the fewest of any p, all at the rates of Theorem 4.8", 1.0, 1.1)
    distance = Expectation("distance of the measured best p from p*", 0.0, 0.16)
    bounded = BOUNDED

    def __init__(self, scale: Scale, problem: SyntheticProblem) -> None:
        self.asked = {p: planner_problem(problem, scale.target, p=p) for p in PROBABILITIES}
        self.theory = {p: constant.slowdown(asked) for p, asked in self.asked.items()}
        self.by = {p: fedamd(problem, scale.rounds(self.theory[p]), p=p) for p in PROBABILITIES}
        self.arms = list(self.by.values())

    def conclude(self, results: Results, scale: Scale) -> StudyResult:
        measured = {p: rounds_to(results[arm].gradient, scale.target) for p, arm in self.by.items()}
        best, least = fewest(measured)
        proofs = {p: constant.proved(asked) for p, asked in self.asked.items()}
        return StudyResult(
            self.name,
            "Over p",
            f"non-convex problem, M = {M}, A = {A}, ‖∇F‖² ≤ {scale.target:g}; p* = {STAR}",
            ("p", "rounds", "interval", "measured, p* = 1", "theory, p* = 1", "proved"),
            _rows(measured, self.theory, STAR, proofs),
            [
                self.near_best.judge(ratio(measured[STAR].value, least)),
                self.distance.judge(None if best is None else abs(best - STAR)),
                self.bounded.judge(worst(measured, proofs)),
            ],
            _figure("anchor probability p", measured, self.theory, STAR),
        )


class OverTau:
    """Is τ = 2 the best period?"""

    name, problem = "tau", TAIL
    two_is_best = Expectation("rounds with τ = 2 over the fewest of any τ, all at the rates of Theorem 4.6", 1.0, 1.0)
    as_predicted = Expectation("slope of log rounds over log theory", 0.8, 1.2)
    bounded = BOUNDED

    def __init__(self, scale: Scale, problem: SyntheticProblem) -> None:
        self.asked = {float(tau): planner_problem(problem, scale.target, tau=tau) for tau in PERIODS}
        self.theory = {tau: sequential.slowdown(asked) for tau, asked in self.asked.items()}
        to_constant = _proved(sequential.proved(self.asked[2.0])) / _proved(
            constant.proved(planner_problem(problem, scale.target))
        )
        self.by = {
            float(tau): fedamd(problem, scale.rounds(to_constant * self.theory[tau]), tau=tau) for tau in PERIODS
        }
        self.arms = list(self.by.values())

    def conclude(self, results: Results, scale: Scale) -> StudyResult:
        measured = {tau: rounds_to(results[arm].gradient, scale.target) for tau, arm in self.by.items()}
        proofs = {tau: sequential.proved(asked) for tau, asked in self.asked.items()}
        return StudyResult(
            self.name,
            "Over τ",
            f"non-convex problem, M = {M}, A = {A}, ‖∇F‖² ≤ {scale.target:g}",
            ("τ", "rounds", "interval", "measured, τ = 2 is 1", "theory, τ = 2 is 1", "proved"),
            _rows(measured, self.theory, 2.0, proofs),
            [
                self.two_is_best.judge(ratio(measured[2.0].value, fewest(measured)[1])),
                self.as_predicted.judge(_log_slope(self.theory, measured)),
                self.bounded.judge(worst(measured, proofs)),
            ],
            _figure("period τ", measured, self.theory, 2.0),
        )


class OverCohort:
    """Do rounds fall as M/A?"""

    name, problem = "cohort", TAIL
    as_predicted = Expectation("slope of log rounds over log of Theorem 4.8's rounds", 0.8, 1.2)
    bounded = BOUNDED

    def __init__(self, scale: Scale, problem: SyntheticProblem) -> None:
        self.asked = {float(cohort): planner_problem(problem, scale.target, cohort) for cohort in COHORTS}
        unit = constant.rounds(self.asked[A])
        self.theory = {cohort: constant.rounds(asked) / unit for cohort, asked in self.asked.items()}
        self.by = {float(a): fedamd(problem, scale.rounds(self.theory[a]), cohort=a) for a in COHORTS}
        self.arms = list(self.by.values())

    def conclude(self, results: Results, scale: Scale) -> StudyResult:
        measured = {a: rounds_to(results[arm].gradient, scale.target) for a, arm in self.by.items()}
        proofs = {a: constant.proved(asked) for a, asked in self.asked.items()}
        return StudyResult(
            self.name,
            "Over A",
            f"non-convex problem, M = {M}, p*(A), the rates of Theorem 4.8, ‖∇F‖² ≤ {scale.target:g}",
            ("A", "rounds", "interval", f"measured, A = {A} is 1", f"theory, A = {A} is 1", "proved"),
            _rows(measured, self.theory, float(A), proofs),
            [self.as_predicted.judge(_log_slope(self.theory, measured)), self.bounded.judge(worst(measured, proofs))],
            _figure("clients in a round A", measured, self.theory, float(A)),
        )


def _proved(proof: Proved | None) -> int:
    return proof.rounds if proof else 1


def _rows(
    measured: Mapping[float, RoundsToAccuracy],
    theory: Mapping[float, float],
    unit: float,
    proofs: Mapping[float, Proved | None],
) -> list[list[TableValue]]:
    """Rounds in themselves, and in units of those at the value `unit`, beside theory."""
    rows: list[list[TableValue]] = []
    for value, rounds in measured.items():
        times, proof = ratio(rounds.value, measured[unit].value), proofs[value]
        shown = None if times is None else round(times, 2)
        rows.append([f"{value:g}", *cells(rounds), shown, round(theory[value], 2), proof.rounds if proof else None])
    return rows


def _log_slope(theory: Mapping[float, float], measured: Mapping[float, RoundsToAccuracy]) -> float | None:
    pairs = [(math.log(theory[key]), math.log(rounds.value)) for key, rounds in measured.items() if rounds.value]
    return slope(*zip(*pairs, strict=True)) if len(pairs) > 2 else None


def _figure(x: str, measured: Mapping[float, RoundsToAccuracy], theory: Mapping[float, float], unit: float) -> Figure:
    lines = [measured_line("measured, the theorem's rates", measured)]
    if (height := measured[unit].value) is not None:
        scaled = [height * value for value in theory.values()]
        lines.append(Line("the theorem, scaled to meet", list(theory), scaled, dashed=True))
    return Figure(x, "rounds to ε", lines, log_x=False)
