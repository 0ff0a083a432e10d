"""What the studies conclude from curves whose shape is known, made by hand instead of by runs."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fedamd.studies.theory_check.accuracy import NonConvex, PolyakLojasiewicz
from fedamd.studies.theory_check.batch import OverBatch
from fedamd.studies.theory_check.problems import SyntheticProblem
from fedamd.studies.theory_check.protocol import FULL, M, fedamd, grounds
from fedamd.studies.theory_check.rates import OverRates, TunedRates
from fedamd.studies.theory_check.results import StudyResult
from fedamd.studies.theory_check.schedules import STAR, OverCohort, OverP, OverTau
from fedamd.studies.theory_check.studies import STUDIES
from fedamd.studies.theory_check.trajectory import Arm, SeedCurves
from fedamd.theory.constant import rates


@pytest.fixture(scope="module")
def fields() -> dict[str, SyntheticProblem]:
    return grounds()


def curves(arms: list[Arm], shape: Callable[[Arm, Tensor], Tensor]) -> dict[Arm, SeedCurves]:
    """Two equal seeds of the curve `shape(arm, t)` for every arm."""
    found = {}
    for arm in arms:
        row = shape(arm, torch.arange(arm.rounds + 1, dtype=torch.float64)).expand(2, -1)
        found[arm] = SeedCurves(row, row)
    return found


def values(finding: StudyResult) -> list[float | None]:
    return [verdict.value for verdict in finding.verdicts]


def test_a_power_of_epsilon(fields: dict[str, SyntheticProblem]) -> None:
    """‖∇F‖² = 10⁻³·t^{−2} reaches ε after ε^{−1/2} rounds: slope ½, outside of what is expected."""
    study = NonConvex(FULL, fields["tail"])
    finding = study.conclude(curves(study.arms, lambda _, t: 1e-3 / t.clamp(min=1) ** 2), FULL)
    assert values(finding)[:2] == pytest.approx([0.5, 0.5], abs=0.01)
    assert [verdict.word for verdict in finding.verdicts] == ["DISAGREES", "DISAGREES", "agrees"]


def test_a_logarithm_of_epsilon_and_a_power(fields: dict[str, SyntheticProblem]) -> None:
    """FedAMD: F − F* = e^{−t/20}, rounds are linear in log(1/ε). FedAvg: 1/t, rounds are 1/ε."""
    study = PolyakLojasiewicz(FULL, fields["quadratic"])

    def shape(arm: Arm, t: Tensor) -> Tensor:
        return 2 / (1 + t) if dict(arm.algorithm)["name"] == "fedavg" else 2 * torch.exp(-t / 20)

    straight, _, averaging, mixed = values(study.conclude(curves(study.arms, shape), FULL))
    assert straight == pytest.approx(1.0, abs=0.05)
    assert averaging == pytest.approx(1.0, abs=0.05)
    assert mixed is not None
    assert mixed < 0.4


def test_the_best_p_is_found(fields: dict[str, SyntheticProblem]) -> None:
    """Rounds to the target: 100 at p = 0.5, 150 elsewhere. p* is 1.5 times slower, and 0.294 away."""
    study = OverP(FULL, fields["tail"])

    def shape(arm: Arm, t: Tensor) -> Tensor:
        return torch.where(t >= (100 if dict(arm.algorithm)["p"] == 0.5 else 150), 0.0, 1.0)

    slower, distance, _ = values(study.conclude(curves(study.arms, shape), FULL))
    assert slower == pytest.approx(1.5)
    assert distance == pytest.approx(STAR - 0.5)


def test_the_best_period_is_found(fields: dict[str, SyntheticProblem]) -> None:
    """Rounds 60·τ: τ = 2 is best, and the slope over theory's (1 + 4τ)·τ/(τ − 1) is that of the two logarithms."""
    study = OverTau(FULL, fields["tail"])
    finding = study.conclude(
        curves(study.arms, lambda arm, t: torch.where(t >= 60 * dict(arm.algorithm)["tau"], 0.0, 1.0)), FULL
    )
    assert values(finding)[0] == 1.0
    assert [row[3] for row in finding.rows] == [1.0, 1.5, 2.0, 3.0, 4.0]
    assert [row[4] for row in finding.rows] == [round((1 + 4 * t) * t / (t - 1) / 18, 2) for t in (2, 3, 4, 6, 8)]


def test_rounds_as_the_theorem_has_them(fields: dict[str, SyntheticProblem]) -> None:
    study = OverCohort(FULL, fields["tail"])
    theory = {cohort: study.theory[cohort] for cohort in study.theory}
    found = curves(study.arms, lambda arm, t: torch.where(t >= round(120 * theory[arm.cohort]), 0.0, 1.0))
    assert values(study.conclude(found, FULL))[0] == pytest.approx(1.0, abs=0.02)


def test_floors(fields: dict[str, SyntheticProblem]) -> None:
    """A floor of 2/b below the bound 3·16/(12·b) = 4/b: ratio ½, slope −1; and 0 at b = n."""
    study = OverBatch(FULL, fields["quadratic"])

    def shape(arm: Arm, t: Tensor) -> Tensor:
        b = dict(arm.algorithm)["large_batch"]
        return torch.full_like(t, 0.0 if b == 10 else 2 / b)

    assert values(study.conclude(curves(study.arms, shape), FULL)) == pytest.approx([0.5, -1.0, 0.0])


def test_tuned_rates(fields: dict[str, SyntheticProblem]) -> None:
    """Rounds fall with η_s up to 4 × the theorem's, then runs diverge: 60/15 rounds."""
    study = TunedRates(FULL, fields["quadratic"])

    def shape(arm: Arm, t: Tensor) -> Tensor:
        by = study.over_p | study.over_tau
        multiple = next(m for arms in by.values() for m, one in arms.items() if one == arm)
        return torch.full_like(t, math.nan) if multiple > 4 else torch.where(t >= 60 / multiple, 0.0, 1.0)

    assert values(study.conclude(curves(study.arms, shape), FULL)) == pytest.approx([4.0, 1.0, 1.0])


def test_rates_far_above_the_theorems(fields: dict[str, SyntheticProblem]) -> None:
    """100 rounds, and 4 at thirty times the rate: a factor of 25, more than expected."""
    study = OverRates(FULL, fields["tail"])
    found = curves(study.arms, lambda arm, t: torch.where(t >= (4 if arm == study.by[30.0] else 100), 0.0, 1.0))
    verdict = study.conclude(found, FULL).verdicts[0]
    assert verdict.value == 25
    assert verdict.word == "DISAGREES"


def test_nothing_reached_is_not_measured(fields: dict[str, SyntheticProblem]) -> None:
    for make in (OverP, OverTau, OverCohort):
        study = make(FULL, fields["tail"])
        finding = study.conclude(curves(study.arms, lambda _, t: torch.ones_like(t)), FULL)
        assert {verdict.word for verdict in finding.verdicts} == {"not measured"}


def test_arms_have_the_theorems_rates(fields: dict[str, SyntheticProblem]) -> None:
    asked = fields["tail"].problem(A=6, K=2, b_small=2, epsilon=1e-6, p=0.5)
    options = dict(fedamd(fields["tail"], 10, p=0.5, multiple=3).algorithm)
    assert options["eta_l"] == rates(asked).eta_l
    assert options["eta_s"] == 3 * rates(asked).eta_s
    assert asked.M == M


def test_names_differ() -> None:
    assert len({study.name for study in STUDIES}) == len(STUDIES)
