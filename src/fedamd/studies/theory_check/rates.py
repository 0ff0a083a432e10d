"""Studies of learning rates: how careful the theorems' are, and whether p* and τ = 2 stay best with tuned ones."""

from collections.abc import Mapping

from fedamd.studies.theory_check.problems import SyntheticProblem
from fedamd.studies.theory_check.protocol import (
    QUADRATIC,
    TAIL,
    A,
    M,
    Results,
    Scale,
    cells,
    fedamd,
    fewest,
    measured_line,
    ratio,
)
from fedamd.studies.theory_check.results import Expectation, Figure, StudyResult, TableValue
from fedamd.studies.theory_check.schedules import STAR
from fedamd.studies.theory_check.trajectory import Arm, RoundsToAccuracy, rounds_to

MULTIPLES = (1, 2, 4, 8, 16)  # of the theorem's η_s
LARGE_MULTIPLES = (1, 3, 10, 30, 100)
PROBABILITIES = (0.35, 0.5, 0.65, STAR, 0.87, 0.95)
PERIODS = (2, 3, 4)
CAREFUL = Expectation("rounds at p* and the theorem's η_s over the fewest at any multiple of it", 1.0, 10.0)


class TunedRates:
    """What is lost at the theorems' rates, and what is best without them?"""

    name, problem = "tuned", QUADRATIC
    epsilon = 1e-4
    careful = CAREFUL
    star_is_best = Expectation("rounds at p* over the fewest of any p, each at its best multiple", 1.0, 1.1)
    two_is_best = Expectation("rounds with τ = 2 over the fewest of any τ, each at its best multiple", 1.0, 1.1)

    def __init__(self, scale: Scale, problem: SyntheticProblem) -> None:
        rounds = scale.base + 20
        self.over_p = {p: {m: fedamd(problem, rounds, p=p, multiple=m) for m in MULTIPLES} for p in PROBABILITIES}
        self.over_tau = {t: {m: fedamd(problem, rounds, tau=t, multiple=m) for m in MULTIPLES} for t in PERIODS}
        self.arms = [arm for by in (self.over_p, self.over_tau) for arms in by.values() for arm in arms.values()]

    def conclude(self, results: Results, scale: Scale) -> StudyResult:  # noqa: ARG002  its accuracy is its own
        by_p = {p: self._measured(results, arms) for p, arms in self.over_p.items()}
        by_tau = {tau: self._measured(results, arms) for tau, arms in self.over_tau.items()}
        best_p = {p: fewest(measured)[1] for p, measured in by_p.items()}
        best_tau = {tau: fewest(measured)[1] for tau, measured in by_tau.items()}
        named = {f"p = {p:g}": m for p, m in by_p.items()} | {f"τ = {tau}": m for tau, m in by_tau.items()}
        rows: list[list[TableValue]] = [
            [schedule, f"{m:g}", *cells(rounds)]
            for schedule, measured in named.items()
            for m, rounds in measured.items()
        ]
        return StudyResult(
            self.name,
            "Learning rates, quadratic",
            f"quadratic, M = {M}, A = {A}, ‖∇F‖² ≤ {self.epsilon:g}, the theorem's η_l and multiples of its η_s",
            ("schedule", "η_s ×", "rounds", "interval"),
            rows,
            [
                self.careful.judge(ratio(by_p[STAR][1.0].value, best_p[STAR])),
                self.star_is_best.judge(ratio(best_p[STAR], _least(best_p))),
                self.two_is_best.judge(ratio(best_tau[2], _least(best_tau))),
            ],
            Figure(
                "multiple of the theorem's η_s",
                "rounds to ε",
                [measured_line(schedule, measured) for schedule, measured in named.items()],
            ),
            ('At "–" some seed diverged or was too slow.',),
        )

    def _measured(self, results: Results, arms: Mapping[int, Arm]) -> dict[float, RoundsToAccuracy]:
        return {float(m): rounds_to(results[arm].gradient, self.epsilon) for m, arm in arms.items()}


class OverRates:
    """How much larger than the theorem's can η_s be where curvature falls along the way, and is p* best then?"""

    name, problem = "rates", TAIL
    careful = CAREFUL
    star_is_best = TunedRates.star_is_best

    def __init__(self, scale: Scale, problem: SyntheticProblem) -> None:
        rounds = scale.rounds(1.0)
        self.by = {float(m): fedamd(problem, rounds, multiple=m) for m in LARGE_MULTIPLES}
        self.over_p = {
            p: {float(m): fedamd(problem, rounds, p=p, multiple=m) for m in LARGE_MULTIPLES[2:]} for p in PROBABILITIES
        }
        self.arms = [*self.by.values(), *(arm for arms in self.over_p.values() for arm in arms.values())]

    def conclude(self, results: Results, scale: Scale) -> StudyResult:
        measured = {m: rounds_to(results[arm].gradient, scale.target) for m, arm in self.by.items()}
        finer = scale.target / 10  # large multiples reach the target at once
        by_p = {
            p: {m: rounds_to(results[arm].gradient, finer) for m, arm in arms.items()}
            for p, arms in self.over_p.items()
        }
        best = {p: fewest(found)[1] for p, found in by_p.items()}
        rows: list[list[TableValue]] = [
            ["p*", f"{scale.target:g}", f"{m:g}", *cells(found)] for m, found in measured.items()
        ]
        rows += [
            [f"p = {p:g}", f"{finer:g}", f"{m:g}", *cells(rounds)]
            for p, found in by_p.items()
            for m, rounds in found.items()
        ]
        return StudyResult(
            self.name,
            "Learning rates, non-convex",
            f"non-convex problem, M = {M}, A = {A}, rounds to ‖∇F‖² ≤ ε, the η_l of Theorem 4.8 and multiples of its "
            "η_s",
            ("schedule", "ε", "η_s ×", "rounds", "interval"),
            rows,
            [
                self.careful.judge(ratio(measured[1.0].value, fewest(measured)[1])),
                self.star_is_best.judge(ratio(best[STAR], _least(best))),
            ],
            Figure(
                "multiple of the theorem's η_s",
                "rounds to ε",
                [
                    measured_line(f"p*, ε = {scale.target:g}", measured),
                    *(measured_line(f"p = {p:g}, ε = {finer:g}", found) for p, found in by_p.items()),
                ],
            ),
            (
                "L is the largest curvature anywhere; on the way out the curvature of this problem falls, and the "
                "theorem's rate does not know that.",
            ),
        )


def _least(best: Mapping[float, float | None] | Mapping[int, float | None]) -> float | None:
    return min((rounds for rounds in best.values() if rounds is not None), default=None)
