"""The study over the large batch b, which leaves noise in the cache unless it is all of a client's data."""

import math

from fedamd.studies.theory_check.problems import SyntheticProblem
from fedamd.studies.theory_check.protocol import QUADRATIC, A, M, Results, Scale, cells, fedamd, planner_problem
from fedamd.studies.theory_check.results import Expectation, Figure, Line, StudyResult
from fedamd.studies.theory_check.trajectory import rounds_to, slope
from fedamd.theory.constant import NOISE

BATCHES = (2, 4, 6, 8, 10)  # the last is n: all of a client's samples


class OverBatch:
    """Where do runs end, and does b = n let them go on?"""

    name, problem = "batch", QUADRATIC
    epsilon = 0.03
    bounded = Expectation("largest ratio of the measured floor to the bound's 3σ²/(Mb), b < n", 0.0, 1.0)
    falls = Expectation("slope of log floor over log b, b < n (the bound has −1)", -4.0, -0.8)
    vanishes = Expectation("floor at b = n over the floor at b = 8", 0.0, 1e-3)

    def __init__(self, scale: Scale, problem: SyntheticProblem) -> None:
        self.where = problem
        self.by = {b: fedamd(problem, max(80, scale.long // 4), large_batch=b) for b in BATCHES}
        self.arms = list(self.by.values())

    def conclude(self, results: Results, scale: Scale) -> StudyResult:  # noqa: ARG002  its accuracy is its own
        late = {b: results[arm].gradient[:, arm.rounds // 2 :].mean().item() for b, arm in self.by.items()}
        measured = {b: rounds_to(results[arm].gradient, self.epsilon) for b, arm in self.by.items()}
        asked = planner_problem(self.where, self.epsilon)
        bounds = {b: NOISE["printed"] * asked.noise_floor(b) for b in BATCHES}
        some = BATCHES[:-1]
        rows = [[b, f"{late[b]:.3g}", f"{bounds[b]:.3g}", *cells(measured[b])] for b in BATCHES]
        return StudyResult(
            self.name,
            "Over b",
            f"quadratic, M = {M}, A = {A}, n = {self.where.samples}, σ = 4, p* and the rates of Theorem 4.8; "
            "the floor is the mean of ‖∇F(x_t)‖² over the second half of the rounds, and rounds are to "
            f"‖∇F‖² ≤ {self.epsilon}",
            ("b", "floor", "bound's noise", "rounds", "interval"),
            rows,
            [
                self.bounded.judge(max(late[b] / bounds[b] for b in some)),
                self.falls.judge(slope([math.log(b) for b in some], [math.log(late[b]) for b in some])),
                self.vanishes.judge(late[BATCHES[-1]] / late[some[-1]]),
            ],
            Figure(
                "large batch b",
                "‖∇F‖² in the end",
                [
                    Line("measured", list(some), [late[b] for b in some]),
                    Line("the bound's 3σ²/(Mb)", list(some), [bounds[b] for b in some], dashed=True),
                ],
            ),
            (
                "A batch is drawn without replacement, so its variance falls faster than σ²/b and is 0 at b = n: the "
                "measured floor falls faster than the bound's.",
            ),
        )
