"""Verdicts on outcomes written by hand: every answer can come out."""

from dataclasses import replace

import pytest
from paper_support import made_outcome, made_run

from fedamd.studies.paper.claims import (
    CLAIMS,
    FEDAMD,
    FEDAVG,
    VARIANCE_REDUCED,
    Claim,
    ClaimVerdict,
    judge,
    markdown,
    verdicts,
)
from fedamd.studies.paper.experiments import COHORTS, EXPERIMENTS
from fedamd.studies.paper.reproduce import ReproducedCurve
from fedamd.studies.paper.table import ACCURACY, COMMUNICATION, GRADIENTS

PATTERNS = CLAIMS[0]  # {0,1} beats {0,0,1}
ALL_METHODS = (*FEDAMD, *VARIANCE_REDUCED, FEDAVG)
BEST = Claim("FedAMD is best", "table2", FEDAMD, (*VARIANCE_REDUCED, FEDAVG), ACCURACY)


def patterns(short: dict[int, float], long: float = 0.8, **how: int) -> list[ReproducedCurve]:
    """{0,1} with these accuracies by cohort, {0,0,1} always with the same."""
    return [
        made_outcome(label, [made_run(accuracy)], cohort, **how)
        for cohort, own in short.items()
        for label, accuracy in (("{0,1}", own), ("{0,0,1}", long))
    ]


def methods(
    values: dict[str, float], grid: dict[float, float], cohorts: tuple[int, ...] = COHORTS
) -> list[ReproducedCurve]:
    """Methods with these final accuracies; FedAvg's grid has these accuracies by η_l."""
    runs = {(eta_l, 1.0): made_run(accuracy) for eta_l, accuracy in grid.items()}
    return [
        made_outcome(label, [made_run(values.get(label, 0.7))], cohort, grid=runs if label == FEDAVG else None)
        for cohort in cohorts
        for label in ALL_METHODS
    ]


def test_holds_where_it_does_in_every_panel() -> None:
    verdict = judge(PATTERNS, patterns({20: 0.81, 40: 0.82, 100: 0.83}))
    assert verdict.text == "holds"
    assert verdict.evidence[0] == "20 clients: {0,1} 81.0 against {0,0,1} 80.0 (final accuracy, %)."


@pytest.mark.parametrize(("rival", "close"), [((0.7, 0.79), False), ((0.7, 0.81), True), ((0.6, 0.85), True)])
def test_seeds_that_overlap_are_told(rival: tuple[float, float], close: bool) -> None:
    """80 % and 82 %: no seed of the first rival is as good, one of the second lies between, of the third beyond."""
    sides = {"{0,1}": (0.8, 0.82), "{0,0,1}": rival}
    outcomes = [made_outcome(label, [made_run(one) for one in seeds]) for label, seeds in sides.items()]
    (evidence, *_) = judge(PATTERNS, outcomes).evidence
    assert evidence.endswith("(final accuracy, %; their seeds overlap)." if close else "(final accuracy, %).")


def test_does_not_hold_where_it_does_in_none() -> None:
    assert judge(PATTERNS, patterns({20: 0.79, 40: 0.8, 100: 0.1})).text == "does not hold"


def test_holds_only_in_some_panels() -> None:
    verdict = judge(PATTERNS, patterns({20: 0.81, 40: 0.79, 100: 0.83}))
    assert verdict.text == "holds only if a round has 20 clients or 100 clients"


def test_not_yet_run() -> None:
    assert judge(PATTERNS, []).text == "not yet run"
    one_sided = [outcome for outcome in patterns({20: 0.9}) if outcome.label == "{0,1}"]
    assert judge(PATTERNS, one_sided).text == "not yet run"


def test_missing_panels_and_unfinished_cells_make_a_success_provisional() -> None:
    assert judge(PATTERNS, patterns({20: 0.9, 40: 0.9})).text == "holds (so far)"
    unfinished = judge(PATTERNS, patterns({20: 0.9, 40: 0.9, 100: 0.9}, finalists=1))
    assert unfinished.text == "holds (so far)"
    assert "{0,1} with 20 clients" in unfinished.evidence[-1]


def test_a_finished_panel_that_speaks_against_it_is_enough() -> None:
    assert judge(PATTERNS, patterns({20: 0.7})).text == "does not hold"
    assert judge(PATTERNS, patterns({20: 0.7}, finalists=1)).text == "does not hold (so far)"


def test_the_better_variant_stands_for_fedamd_and_the_best_rival_against_it() -> None:
    won = methods({"FedAMD (constant)": 0.6, "FedAMD (sequential)": 0.9, FEDAVG: 0.89}, {})
    lost = methods({"FedAMD (sequential)": 0.9, "SCAFFOLD": 0.91}, {})
    assert judge(BEST, won).text == "holds"
    assert judge(BEST, lost).answer == "does not hold"
    assert "FedAMD (sequential) 90.0 against SCAFFOLD 91.0" in judge(BEST, lost).evidence[0]


def test_what_a_slower_fedavg_would_change_is_told_but_decides_nothing() -> None:
    """At 0.1 FedAvg has 86 %, at 0.03 still 85 %; FedAMD's 83 % are more than FedAvg's 80 % at 0.02."""
    fedavg = {0.1: 0.86, 0.03: 0.85, 0.02: 0.80, 0.01: 0.7}
    verdict = judge(BEST, methods({FEDAVG: 0.86, "FedAMD (sequential)": 0.83}, fedavg))
    assert verdict.text == "does not hold"
    assert verdict.evidence[0].startswith("20 clients: FedAMD (sequential) 83.0 against FedAvg 86.0")
    assert verdict.evidence[-1].startswith("Explored after the fact")
    assert "η_l were kept ≤ 0.02 (1 seed of FedAvg), 100 clients" in verdict.evidence[-1]


def test_limited_rates_count_on_all_seeds_where_they_were_run_on_all() -> None:
    """At 0.03 the grid's seed has 80 %, but all three together 84 %: more than FedAMD's 83 %."""
    outcomes = methods({FEDAVG: 0.86, "FedAMD (sequential)": 0.83}, {0.1: 0.86, 0.03: 0.80, 0.02: 0.7})
    assert "kept ≤ 0.03" in " ".join(judge(BEST, outcomes).evidence)
    known = [made_run(0.80), made_run(0.86), made_run(0.86)]
    more = [
        replace(one, repeated={**one.repeated, (0.03, 1.0): known}) if one.label == FEDAVG else one for one in outcomes
    ]
    assert "kept ≤ 0.02" in " ".join(judge(BEST, more).evidence)


def test_no_limit_helps_where_another_rival_is_better() -> None:
    values = {FEDAVG: 0.86, "FedAMD (sequential)": 0.83, "FedPAGE": 0.84}
    verdict = judge(BEST, methods(values, {0.1: 0.86, 0.03: 0.2, 0.005: 0.1}))
    assert verdict.answer == "does not hold"
    assert "no limit" in verdict.evidence[-1]


@pytest.mark.parametrize("quantity", [GRADIENTS, COMMUNICATION])
def test_of_costs_the_least_is_best_and_never_is_the_worst(quantity) -> None:
    claim = Claim("less", "table2", ("FedAMD (constant)",), ("SCAFFOLD",), quantity)

    def verdict(ours: int | None, theirs: int | None) -> ClaimVerdict:
        pairs = (("FedAMD (constant)", ours), ("SCAFFOLD", theirs))
        runs = {label: [made_run(0.8, 10), made_run(0.8, rounds)] for label, rounds in pairs}
        return judge(claim, [made_outcome(label, own, cohort) for cohort in COHORTS for label, own in runs.items()])

    assert verdict(20, 30).text == "holds"
    assert verdict(30, 20).text == "does not hold"
    assert verdict(30, None).text == "holds"
    assert "against SCAFFOLD never" in verdict(30, None).evidence[0]
    assert verdict(None, 30).text == "does not hold"
    assert verdict(None, None).text == "does not hold"


def test_every_claim_names_curves_that_are_declared() -> None:
    for claim in CLAIMS:
        labels = {cell.label for cell in EXPERIMENTS[claim.experiment].cells}
        assert {*claim.favoured, *claim.rivals} <= labels


def test_claims_without_data_are_told_as_such() -> None:
    told = verdicts({})
    assert {verdict.answer for verdict in told} == {"not yet run"}
    assert markdown(told).count("**not yet run**") == len(CLAIMS)
