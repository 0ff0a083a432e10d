"""Studies over the accuracy ε: 1/ε without convexity, log(1/ε) under PL, and FedAvg with its noise beside them."""

import math

from fedamd.studies.theory_check.problems import SyntheticProblem, Tail
from fedamd.studies.theory_check.protocol import (
    BOUNDED,
    QUADRATIC,
    TAIL,
    A,
    M,
    Results,
    Scale,
    cells,
    fedamd,
    fedavg,
    measured_line,
    planner_problem,
    worst,
)
from fedamd.studies.theory_check.results import Expectation, Figure, Line, StudyResult, TableValue
from fedamd.studies.theory_check.trajectory import RoundsToAccuracy, rounds_to, slope
from fedamd.theory import constant, constant_pl, sequential
from fedamd.theory.problem import Proved

POINTS = 9  # accuracies in a decade of rounds
FEDAVG_STEPS = (1.0, 0.3, 0.1, 0.03, 0.01)  # the length of K local steps
GAPS = tuple(10 ** (-j / 2) for j in range(9))  # F − F* ≤ 1 … 10⁻⁴


class NonConvex:
    """Do rounds grow as 1/ε?"""

    name, problem = "epsilon", TAIL
    constant_slope = Expectation("slope of log rounds over log(1/ε), constant p*, last decade of rounds", 0.85, 1.1)
    sequential_slope = Expectation("slope of log rounds over log(1/ε), τ = 2, last decade of rounds", 0.85, 1.1)
    bounded = BOUNDED

    def __init__(self, scale: Scale, problem: SyntheticProblem) -> None:
        self.where = problem
        self.by = {"p*": fedamd(problem, scale.long), "τ = 2": fedamd(problem, scale.long, tau=2)}
        self.arms = list(self.by.values())

    def conclude(self, results: Results, scale: Scale) -> StudyResult:
        rows: list[list[TableValue]] = []
        lines, slopes, ratios = [], {}, []
        for label, arm in self.by.items():
            smallest = results[arm].gradient.cummin(1).values.amax(0)  # what every seed has reached
            times = [round(scale.long * 10 ** (-1 + j / (POINTS - 1))) for j in range(POINTS)]
            measured = {float(smallest[t]): rounds_to(results[arm].gradient, float(smallest[t])) for t in times}
            proofs = {epsilon: self._proved(label, epsilon) for epsilon in measured}
            for epsilon, rounds in measured.items():
                proof = proofs[epsilon]
                rows.append([label, f"{epsilon:.3g}", *cells(rounds), proof.rounds if proof else None])
            ratios.append(worst(measured, proofs) or 0.0)
            reached = [(-math.log(e), math.log(max(1.0, r.value or 0.0))) for e, r in measured.items()]
            slopes[label] = slope(*zip(*reached, strict=True)) if len(reached) > 2 else None
            lines.append(measured_line(f"measured, {label}", {1 / e: r for e, r in measured.items()}))
            lines.append(
                Line(
                    f"proved, {label}",
                    [1 / e for e in proofs],
                    [float(p.rounds) for p in proofs.values() if p],
                    dashed=True,
                )
            )
        s = self.where.model.s if isinstance(self.where.model, Tail) else math.nan
        flow = (s + 2) / (2 * (s + 1))
        return StudyResult(
            self.name,
            "Over ε, non-convex",
            f"non-convex problem, M = {M}, A = {A}, the theorems' rates, rounds to min ‖∇F(x_t)‖² ≤ ε",
            ("schedule", "ε", "rounds", "interval", "proved"),
            rows,
            [
                self.constant_slope.judge(slopes["p*"]),
                self.sequential_slope.judge(slopes["τ = 2"]),
                self.bounded.judge(max(ratios)),
            ],
            Figure("1/ε", "rounds to ε", lines),
            (
                "The theorem bounds the mean of ‖∇F(x_t)‖² over the rounds, which is at least the smallest of them; "
                f"it says that rounds grow at most as 1/ε. Gradient flow on this problem needs ε^−{flow:.3f} in the "
                "end, so a slope near 1 is the best this bound can be met with. A slope slightly above 1 over a finite "
                "range does not contradict the bound, which the last line checks with all its constants.",
            ),
        )

    def _proved(self, label: str, epsilon: float) -> Proved | None:
        if label == "p*":
            return constant.proved(planner_problem(self.where, epsilon))
        return sequential.proved(planner_problem(self.where, epsilon, tau=2))


class PolyakLojasiewicz:
    """Do rounds grow as log(1/ε), and FedAvg's faster?"""

    name, problem = "pl", QUADRATIC
    straight = Expectation(
        "rounds per factor e of 1/ε: those of the smaller half of the ε's over those of the larger half", 0.8, 1.25
    )
    bounded = BOUNDED
    power = Expectation("FedAvg, the best step for each ε: slope of log rounds over log(1/ε)", 0.5, 1.2)
    slower = Expectation("FedAMD at 10 × the theorem's η_s, the same slope over the same ε's", 0.0, 0.4)

    def __init__(self, scale: Scale, problem: SyntheticProblem) -> None:
        self.where = problem
        self.theorem = fedamd(problem, scale.long, pl=True)
        self.faster = fedamd(problem, max(20, scale.long // 6), pl=True, multiple=10)
        self.averaging = {step: fedavg(scale.long, step) for step in FEDAVG_STEPS}
        self.arms = [self.theorem, self.faster, *self.averaging.values()]

    def conclude(self, results: Results, scale: Scale) -> StudyResult:  # noqa: ARG002  its accuracies are its own
        measured = {e: rounds_to(results[self.theorem].gap, e) for e in GAPS}
        faster = {e: rounds_to(results[self.faster].gap, e) for e in GAPS}
        averaged = {e: self._best_fedavg(results, e) for e in GAPS}
        proofs = {e: constant_pl.proved(planner_problem(self.where, e, pl=True)) for e in GAPS}
        rows = [
            [
                f"{e:.3g}",
                *cells(measured[e]),
                (proof := proofs[e]) and proof.rounds,
                *cells(faster[e]),
                *cells(averaged[e]),
            ]
            for e in GAPS
        ]
        common = [e for e in GAPS[2:] if averaged[e].value and faster[e].value]
        return StudyResult(
            self.name,
            "Over ε, PL; FedAvg",
            f"quadratic, M = {M}, A = {A}, μ/L = 0.5, σ = 4, rounds to F(x_t) − F* ≤ ε; "
            f"FedAvg with the best of the steps {', '.join(map(str, FEDAVG_STEPS))} for each ε",
            ("ε", "Theorem 4.11", "interval", "proved", "η_s × 10", "interval", "FedAvg", "interval"),
            rows,
            [
                self.straight.judge(_straightness(measured)),
                self.bounded.judge(worst(measured, proofs)),
                self.power.judge(_power(averaged, common)),
                self.slower.judge(_power(faster, common)),
            ],
            Figure(
                "1/ε",
                "rounds to ε",
                [
                    measured_line("FedAMD, Theorem 4.11", {1 / e: r for e, r in measured.items()}),
                    measured_line("FedAMD, η_s × 10", {1 / e: r for e, r in faster.items()}),
                    measured_line("FedAvg, best step for each ε", {1 / e: r for e, r in averaged.items()}),
                    Line("proved", [1 / e for e in GAPS], [float(p.rounds) for p in proofs.values() if p], dashed=True),
                ],
            ),
            (
                _compared("FedAMD at the theorem's rates", measured, averaged),
                _compared("FedAMD at 10 × the theorem's η_s", faster, averaged),
            ),
        )

    def _best_fedavg(self, results: Results, epsilon: float) -> RoundsToAccuracy:
        found = [rounds_to(results[arm].gap, epsilon) for arm in self.averaging.values()]
        return min(found, key=lambda rounds: math.inf if rounds.value is None else rounds.value)


def _compared(label: str, measured: dict[float, RoundsToAccuracy], averaged: dict[float, RoundsToAccuracy]) -> str:
    """Where FedAvg with its step chosen for each ε was the faster of the two, and where it did not arrive."""

    def needed(rounds: RoundsToAccuracy) -> float:
        return math.inf if rounds.value is None else rounds.value

    ahead = [e for e in GAPS if needed(averaged[e]) < needed(measured[e])]
    missed = [e for e in GAPS if needed(measured[e]) < needed(averaged[e]) == math.inf]
    return (
        f"FedAvg, its step chosen for each ε, needed fewer rounds than {label} "
        + (f"at {len(ahead)} of {len(GAPS)} ε's, the smallest of them {min(ahead):.3g}" if ahead else "nowhere")
        + (f"; it did not reach {max(missed):.3g} with all seeds, where FedAMD did." if missed else ".")
    )


def _straightness(measured: dict[float, RoundsToAccuracy]) -> float | None:
    """The slope of rounds over log(1/ε) in the second half of what was reached, over that in the first half."""
    points = [(-math.log(e), r.value) for e, r in measured.items() if r.value]
    half = len(points) // 2
    if half < 2:
        return None
    first, second = slope(*zip(*points[: half + 1], strict=True)), slope(*zip(*points[half:], strict=True))
    return second / first


def _power(measured: dict[float, RoundsToAccuracy], accuracies: list[float]) -> float | None:
    points = [(-math.log(e), math.log(measured[e].value or 1.0)) for e in accuracies]
    return slope(*zip(*points, strict=True)) if len(points) > 2 else None
