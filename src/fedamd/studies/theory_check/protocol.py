"""What all studies share: the two grounds, the sizes of a round, how long to watch, and arms at the theorems' rates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedamd.studies.theory_check.problems import SyntheticProblem, quadratic_problem, tail_problem
from fedamd.studies.theory_check.results import Expectation, Line, TableValue
from fedamd.studies.theory_check.trajectory import Arm, RoundsToAccuracy, SeedCurves
from fedamd.theory.probability import anchor_probability
from fedamd.theory.problem import Problem, Proved, whole
from fedamd.theory.resolve import theory_rates

M, A, K, B_SMALL = 12, 6, 2, 2
TAIL, QUADRATIC = "tail", "quadratic"
BOUNDED = Expectation("largest ratio of measured to proved rounds", 0.0, 1.0)
Results = Mapping[Arm, SeedCurves]


@dataclass(frozen=True)
class Scale:
    """How much is run. `base` rounds are about what p* needs to reach ‖∇F‖² ≤ `target` on the tail problem."""

    seeds: int
    base: int
    target: float
    long: int  # rounds of the studies over ε

    def rounds(self, slowdown: float) -> int:
        """How long to watch an arm that theory says is so many times slower."""
        return whole(1.7 * self.base * slowdown)


FULL = Scale(seeds=5, base=130, target=5e-4, long=1200)
QUICK = Scale(seeds=2, base=26, target=1.6e-3, long=80)


def grounds() -> dict[str, SyntheticProblem]:
    """The problems, by name."""
    return {
        TAIL: tail_problem(M, samples=10, dimension=4),
        QUADRATIC: quadratic_problem(M, samples=10, dimension=4, mu=0.5, sigma=4.0),
    }


def planner_problem(
    problem: SyntheticProblem, epsilon: float, cohort: int = A, pl: bool = False, **schedule: Any
) -> Problem:
    """What the theorems are asked about, with anchors that use all their samples."""
    return problem.problem(pl=pl, A=cohort, K=K, b_small=B_SMALL, b=problem.samples, epsilon=epsilon, **schedule)


def fedamd(
    problem: SyntheticProblem,
    rounds: int,
    *,
    cohort: int = A,
    multiple: float = 1.0,
    pl: bool = False,
    large_batch: int | str = "full",
    p: float | None = None,
    tau: int | None = None,
) -> Arm:
    """FedAMD at the theorem's rates for its schedule, η_s times `multiple`; without p and τ, at p*."""
    setting = planner_problem(problem, 1e-9, cohort, pl, **({"p": p} if tau is None else {"tau": tau}))
    rates = theory_rates("constant" if tau is None else "sequential", setting)
    schedule = {"p": anchor_probability(setting)} if tau is None else {"tau": tau}
    return Arm.of(
        cohort,
        rounds,
        name="fedamd",
        steps=K,
        small_batch=B_SMALL,
        large_batch=large_batch,
        eta_l=rates.eta_l,
        eta_s=rates.eta_s * multiple,
        **schedule,
    )


def fedavg(rounds: int, step: float) -> Arm:
    """FedAvg whose K local steps together have this length; η_s = 1."""
    return Arm.of(A, rounds, name="fedavg", steps=K, small_batch=B_SMALL, eta_l=step / K, eta_s=1.0)


def cells(rounds: RoundsToAccuracy) -> list[TableValue]:
    """Mean and interval, as two cells of a table."""
    if rounds.value is None or rounds.low is None or rounds.high is None:
        return [None, None]
    return [round(rounds.value, 1), f"{rounds.low:.1f} … {rounds.high:.1f}"]


def fewest(options: Mapping[float, RoundsToAccuracy]) -> tuple[float | None, float | None]:
    """The option that needed the fewest rounds, and how many those were."""
    reached = {option: rounds.value for option, rounds in options.items() if rounds.value is not None}
    if not reached:
        return None, None
    best = min(reached, key=lambda option: reached[option])
    return best, reached[best]


def ratio(a: float | None, b: float | None) -> float | None:
    """a/b, where both are known."""
    return None if a is None or not b else a / b


def worst(measured: Mapping[float, RoundsToAccuracy], proofs: Mapping[float, Proved | None]) -> float | None:
    """The largest ratio of measured to proved rounds."""
    pairs = [(measured[key].value, proof) for key, proof in proofs.items() if proof is not None]
    return max((value / proof.rounds for value, proof in pairs if value is not None), default=None)


def measured_line(label: str, measured: Mapping[float, RoundsToAccuracy]) -> Line:
    """A line with intervals through what was reached."""
    reached = [(x, r.value, r.low or 0.0, r.high or 0.0) for x, r in measured.items() if r.value is not None]
    x, y, low, high = ([row[column] for row in reached] for column in range(4))
    return Line(label, x, y, low, high)
