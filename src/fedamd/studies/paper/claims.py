"""The paper's claims, each held against what was measured: it holds, does not hold, holds only if …, or is not run yet.

A claim says that some curves of a panel beat others in one quantity. In each panel the best of the favoured is compared
with the best of the rivals, as means over seeds at each one's best rates; a run that never reaches the target costs ∞.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fedamd.studies.paper.experiments import EXPERIMENTS, LOCAL_RATES
from fedamd.studies.paper.reproduce import ReproducedCurve, best_rates
from fedamd.studies.paper.table import ACCURACY, COMMUNICATION, GRADIENTS, Quantity, panels

Answer = Literal["holds", "does not hold", "holds only if", "not yet run"]

FEDAMD = ("FedAMD (constant)", "FedAMD (sequential)")
VARIANCE_REDUCED = ("BVR-L-SGD", "FedPAGE", "SCAFFOLD")
FEDAVG = "FedAvg"
_EXPLORED = "Explored after the fact, one of several definitions: "


@dataclass(frozen=True)
class Claim:
    """In every panel of the experiment, the best of `favoured` is better than the best of `rivals`."""

    text: str
    experiment: str
    favoured: tuple[str, ...]
    rivals: tuple[str, ...]
    quantity: Quantity = ACCURACY


@dataclass(frozen=True)
class ClaimVerdict:
    """What the data say of a claim."""

    claim: Claim
    answer: Answer
    condition: str  # under which it holds, for "holds only if"
    provisional: bool  # cells that are not finished could still change the answer
    evidence: tuple[str, ...]  # a sentence for each panel and for the condition

    @property
    def text(self) -> str:
        so_far = " (so far)" if self.provisional else ""
        return " ".join(part for part in (self.answer, self.condition) if part) + so_far


def _beats(text: str, experiment: str, favoured: str, *rivals: str) -> Claim:
    return Claim(text, experiment, (favoured,), rivals)


CLAIMS = (
    _beats("The pattern {0,1} beats {0,0,1} at K = 10", "figure1", "{0,1}", "{0,0,1}"),
    Claim("Constants near p* are the best constants", "figure1", ("p = p*", "p = 0.9"), ("p = 0.5", "p = 0.7")),
    _beats("b = full beats 256 and 64, with p = 0.9", "batch-p09", "b = full", "b = 256", "b = 64"),
    _beats("b = full beats 256 and 64, with p = p*", "batch-optimal", "b = full", "b = 256", "b = 64"),
    _beats("b = full beats 256 and 64, with {0,1}", "batch-sequential", "b = full", "b = 256", "b = 64"),
    *(
        Claim(f"FedAMD {deed}{among}", "table2", FEDAMD, rivals, quantity)
        for rivals, among in (((*VARIANCE_REDUCED, FEDAVG), ""), (VARIANCE_REDUCED, ", FedAvg left aside"))
        for deed, quantity in (
            ("reaches 75 % with the least computation", GRADIENTS),
            ("reaches 75 % with the least communication", COMMUNICATION),
            ("ends with the highest accuracy", ACCURACY),
        )
    ),
)


def verdicts(results: Mapping[str, Sequence[ReproducedCurve]]) -> list[ClaimVerdict]:
    """Of every claim, from the finished cells of every experiment."""
    return [judge(claim, results.get(claim.experiment, [])) for claim in CLAIMS]


def judge(claim: Claim, outcomes: Sequence[ReproducedCurve]) -> ClaimVerdict:
    """One claim, in the panels in which all its curves are there."""
    names = {*claim.favoured, *claim.rivals}
    relevant = panels([outcome for outcome in outcomes if outcome.label in names])
    whole = {panel: own for panel, own in relevant.items() if {outcome.label for outcome in own} == names}
    missing = [panel for panel in _declared_panels(claim) if panel not in whole]
    if not whole:
        return ClaimVerdict(claim, "not yet run", "", False, (f"{claim.experiment} has not been run in full.",))
    duels = {panel: _duel(claim, own, lambda outcome: outcome.runs) for panel, own in whole.items()}
    won = [panel for panel, duel in duels.items() if duel.won]
    evidence = [f"{panel}: {duel.told()}." for panel, duel in duels.items()]
    answer, condition = _answer(list(duels), won)
    if answer != "holds" and FEDAVG in claim.rivals:
        evidence += _if_fedavg_were_slower(claim, whole)
    unfinished = [f"{o.label} with {panel}" for panel, own in whole.items() for o in own if not o.complete]
    unfinished += [f"all with {panel}" for panel in missing]
    if unfinished:
        evidence.append(f"Not finished: {', '.join(unfinished)}.")
    refuted = any(panel not in won and all(o.complete for o in own) for panel, own in whole.items())
    return ClaimVerdict(claim, answer, condition, bool(unfinished) and not refuted, tuple(evidence))


@dataclass(frozen=True)
class _Side:
    """A curve in a duel: its mean over seeds, and its value for each of them."""

    label: str
    mean: float
    seeds: tuple[float, ...]

    def told(self, quantity: Quantity) -> str:
        return f"{self.label} {_number(self.mean, quantity)}"


@dataclass(frozen=True)
class _Duel:
    """The best of either side."""

    favoured: _Side
    rival: _Side
    quantity: Quantity

    @property
    def won(self) -> bool:
        mine, other = self.favoured.mean, self.rival.mean
        return mine < other if self.quantity.lower_is_better else mine > other

    @property
    def close(self) -> bool:
        """Whether some seed of the worse side is better than some seed of the other."""
        mine, other = self.favoured.seeds, self.rival.seeds
        return min(mine) <= max(other) and min(other) <= max(mine)

    def told(self) -> str:
        sides = f"{self.favoured.told(self.quantity)} against {self.rival.told(self.quantity)}"
        return f"{sides} ({self.quantity.heading}{'; their seeds overlap' if self.close else ''})"


Runs = Callable[[ReproducedCurve], Sequence[Mapping[str, Any]]]  # with which runs a cell enters a duel


def _duel(claim: Claim, outcomes: Sequence[ReproducedCurve], runs_of: Runs) -> _Duel:
    sides = [_side(outcome.label, runs_of(outcome), claim.quantity) for outcome in outcomes]
    best = min if claim.quantity.lower_is_better else max
    favoured, rival = (
        best((side for side in sides if side.label in labels), key=lambda side: side.mean)
        for labels in (claim.favoured, claim.rivals)
    )
    return _Duel(favoured, rival, claim.quantity)


def _side(label: str, runs: Sequence[Mapping[str, Any]], quantity: Quantity) -> _Side:
    return _Side(label, _or_infinity(quantity.mean(runs)), tuple(_or_infinity(quantity.of(run)) for run in runs))


def _answer(judged: Sequence[str], won: Sequence[str]) -> tuple[Answer, str]:
    if len(won) == len(judged):
        return "holds", ""
    return ("holds only if", f"a round has {' or '.join(won)}") if won else ("does not hold", "")


def _if_fedavg_were_slower(claim: Claim, whole: Mapping[str, Sequence[ReproducedCurve]]) -> list[str]:
    """The largest η_l of the grid such that the claim would hold everywhere if FedAvg might not exceed it.

    FedAvg is then taken at the pair of rates that is best on the grid among those it is left with; all others as ever.
    This question was asked after the results were seen, and other ways to put it give other limits: it is told as an
    exploration and decides no verdict.
    """
    for limit in LOCAL_RATES[1:]:
        duels = {panel: _duel(claim, own, _limited(limit)) for panel, own in whole.items()}
        if all(duel.won for duel in duels.values()):
            seeds = min(len(_limited_runs(o, limit)) for own in whole.values() for o in own if o.label == FEDAVG)
            start = f"{_EXPLORED}if FedAvg's η_l were kept ≤ {limit:g} ({seeds} seed{'s' * (seeds > 1)} of FedAvg)"
            return [f"{start}, {panel}: {duel.told()}." for panel, duel in duels.items()]
    return [f"{_EXPLORED}no limit on FedAvg's η_l would make it hold."]


def _limited(limit: float) -> Runs:
    return lambda outcome: _limited_runs(outcome, limit) if outcome.label == FEDAVG else outcome.runs


def _limited_runs(outcome: ReproducedCurve, limit: float) -> Sequence[Mapping[str, Any]]:
    """At the best rates with η_l ≤ limit: on all seeds where they were run on all, else on the grid's one."""
    allowed = {pair: [run] for pair, run in outcome.grid.items() if pair[0] <= limit}
    if not allowed:
        return outcome.runs  # a small share of the grid: nothing below the limit
    best = best_rates(allowed)[0]
    return outcome.repeated.get(best, allowed[best])


def _declared_panels(claim: Claim) -> list[str]:
    return list(dict.fromkeys(cell.panel for cell in EXPERIMENTS[claim.experiment].cells))


def _or_infinity(value: float | None) -> float:
    return math.inf if value is None else value


def _number(value: float, quantity: Quantity) -> str:
    return quantity.text(value if math.isfinite(value) else None)


def markdown(told: Sequence[ClaimVerdict]) -> str:
    """The verdicts as a table, the evidence below each other in its last column."""
    lines = ["| claim | verdict | evidence |", "| --- | --- | --- |"]
    lines += [f"| {one.claim.text} | **{one.text}** | {'<br>'.join(one.evidence)} |" for one in told]
    return "# The paper's claims\n\n" + "\n".join(lines) + "\n"
