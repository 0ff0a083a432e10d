"""Our numbers beside the paper's: a row for each cell, as Markdown, as CSV and for the page."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fedamd.report.curves import BIT_UNIT, GRADIENT_UNIT
from fedamd.studies.paper.experiments import TARGET
from fedamd.studies.paper.reference import TABLE_2, Printed
from fedamd.studies.paper.reproduce import SEARCHES, ReproducedCurve, final_accuracy

Run = Mapping[str, Any]


@dataclass(frozen=True)
class Quantity:
    """Something Table 2 has a column for; `of` is None for a run that never reached the target."""

    name: str  # also of the field of `Printed`
    heading: str
    of: Callable[[Run], float | None]
    digits: int
    lower_is_better: bool = True

    def mean(self, runs: Sequence[Run]) -> float | None:
        """Over the seeds; None where one of them never got there, as a mean of the others would flatter."""
        values = [self.of(run) for run in runs]
        known = [value for value in values if value is not None]
        return fmean(known) if len(known) == len(values) else None

    def text(self, value: float | None, missing: str = "never") -> str:
        return missing if value is None else f"{value:.{self.digits}f}"


def _to_target(cost: Callable[[Run], float]) -> Callable[[Run], float | None]:
    return lambda run: cost(run["to_target"]) if run["to_target"] else None


_GOAL = f"to {100 * TARGET:g} %"
ROUNDS = Quantity("rounds", f"rounds {_GOAL}", _to_target(lambda at: at["rounds"]), 0)
GRADIENTS = Quantity(
    "gradients", f"gradients ×10⁵ {_GOAL}", _to_target(lambda at: at["gradient_samples"] / GRADIENT_UNIT), 1
)
COMMUNICATION = Quantity(
    "communication", f"×32 Mbit {_GOAL}", _to_target(lambda at: (at["bits_up"] + at["bits_down"]) / BIT_UNIT), 1
)
ACCURACY = Quantity("accuracy", "final accuracy, %", lambda run: 100 * final_accuracy(run), 1, lower_is_better=False)
QUANTITIES = (ROUNDS, GRADIENTS, COMMUNICATION, ACCURACY)


@dataclass(frozen=True)
class Row:
    """One cell of an experiment, with what the paper printed for it, if it did."""

    outcome: ReproducedCurve
    printed: Printed | None

    def here(self, quantity: Quantity) -> float | None:
        return quantity.mean(self.outcome.runs)

    def paper(self, quantity: Quantity) -> float | None:
        return getattr(self.printed, quantity.name) if self.printed else None

    def deviation(self, quantity: Quantity) -> float | None:
        """From the paper: of an accuracy in percentage points, of a cost in percent of it."""
        here, paper = self.here(quantity), self.paper(quantity)
        if here is None or paper is None:
            return None
        return here - paper if quantity is ACCURACY else 100 * (here / paper - 1)

    def seeds(self, quantity: Quantity) -> list[str]:
        return [quantity.text(quantity.of(run)) for run in self.outcome.runs]


def rows(experiment: str, outcomes: Sequence[ReproducedCurve]) -> list[Row]:
    """In the order of the outcomes; only Table 2 was printed as numbers."""
    printed = TABLE_2 if experiment == "table2" else {}
    return [Row(outcome, printed.get((outcome.label, outcome.cell.cohort))) for outcome in outcomes]


def panels(outcomes: Sequence[ReproducedCurve]) -> dict[str, list[ReproducedCurve]]:
    """By sub-figure, in order."""
    found: dict[str, list[ReproducedCurve]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.cell.panel, []).append(outcome)
    return found


def headings(told: Sequence[Row]) -> list[str]:
    """Of the columns that `cells` fills."""
    quantities = [
        name
        for quantity in QUANTITIES
        for name in ([quantity.heading, "paper", "Δ"] if _any_printed(told) else [quantity.heading])
    ]
    return ["method", "η_l, η_s", *quantities, "rounds of each seed", "accuracy of each seed"]


def cells(row: Row, with_paper: bool) -> list[str]:
    """A row as it reads."""
    texts = [row.outcome.label + ("" if row.outcome.complete else " *"), "{:g}, {:g}".format(*row.outcome.rates)]
    for quantity in QUANTITIES:
        texts.append(quantity.text(row.here(quantity), "some never"))
        if with_paper:
            texts += [quantity.text(row.paper(quantity), "–"), deviation(row, quantity)]
    return [*texts, ", ".join(row.seeds(ROUNDS)), ", ".join(row.seeds(ACCURACY))]


def texts(told: Sequence[Row]) -> list[list[str]]:
    """All rows as they read."""
    return [cells(row, _any_printed(told)) for row in told]


def footnote(told: Sequence[Row]) -> str:
    """What the marks mean."""
    notes = ["Δ: deviation from the paper, of costs in percent, of accuracy in points."] if _any_printed(told) else []
    if any(row.here(quantity) is None for row in told for quantity in QUANTITIES):
        notes.append(f"some never: at least one seed did not reach {100 * TARGET:g} %, so there is no mean.")
    if unfinished := [row.outcome for row in told if not row.outcome.complete]:
        counts = "; ".join(f"{one.label}: {len(one.repeated)} of {one.planned}" for one in unfinished)
        notes.append(f"*: not all pairs of rates that were to be run on all seeds have been ({counts}).")
    if search := {row.outcome.search for row in told} - {"grid"}:
        notes.append(f"Rates tried: {SEARCHES[search.pop()].tried}.")
    return " ".join(notes)


def markdown(title: str, told: Sequence[Row]) -> str:
    """A table for each panel."""
    parts = [f"# {title}\n"]
    for panel in panels([row.outcome for row in told]):
        own = [row for row in told if row.outcome.cell.panel == panel]
        lines = [headings(own), ["---"] * len(headings(own)), *texts(own)]
        parts.append(f"## {panel}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n")
        parts.append(f"{footnote(own)}\n")
    return "\n".join(part for part in parts if part.strip())


def as_csv(told: Sequence[Row]) -> str:
    """A line for each seed of each cell, with all digits, for other programs."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = [quantity.name for quantity in QUANTITIES]
    paper = [f"paper_{name}" for name in names]
    writer.writerow(["panel", "method", "cohort", "eta_l", "eta_s", "seed", "status", *names, *paper])
    for row in told:
        cell, printed = row.outcome.cell, [row.paper(quantity) for quantity in QUANTITIES]
        for run in row.outcome.runs:
            which = [cell.panel, cell.label, cell.cohort, *row.outcome.rates, run["seed"], run["status"]]
            measured = [None if (value := q.of(run)) is None else round(value, 4) for q in QUANTITIES]
            writer.writerow([*which, *measured, *printed])
    return file.getvalue()


def _any_printed(told: Sequence[Row]) -> bool:
    return any(row.printed for row in told)


def deviation(row: Row, quantity: Quantity) -> str:
    """From the paper, as it reads."""
    value = row.deviation(quantity)
    if value is None:
        return "–"
    return f"{value:+.1f}" if quantity is ACCURACY else f"{value:+.0f} %"
