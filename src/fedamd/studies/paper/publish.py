"""What a reproduction leaves behind, next to its stores: tables, figures, verdicts, and one page with all of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fedamd.errors import FedamdError
from fedamd.metrics import Measure, Target
from fedamd.report.content import curve_section
from fedamd.report.curves import PAPER, thinned
from fedamd.report.page import Facts, HeatMaps, PageSection, Table, TableCell, Text, Tone, build_page, cell
from fedamd.studies.paper import claims, table
from fedamd.studies.paper.experiments import EXPERIMENTS, TARGET, PaperExperiment
from fedamd.studies.paper.figures import accuracies, curve, draw_curves, draw_grids, is_drawn
from fedamd.studies.paper.reproduce import Protocol, ReproducedCurve, stored
from fedamd.studies.paper.store import PaperStore

_EVERY = 4  # which rounds of a curve are on the page
Results = Mapping[str, Sequence[ReproducedCurve]]
ALL = tuple(EXPERIMENTS.values())
_TONES: dict[claims.Answer, Tone] = {
    "holds": "good",
    "holds only if": "warn",
    "does not hold": "bad",
    "not yet run": "",
}


def all_results(
    folder: Path, protocol: Protocol, experiments: Sequence[PaperExperiment] = ALL
) -> dict[str, list[ReproducedCurve]]:
    """The finished cells of every experiment that has a store in this folder."""
    store = PaperStore(folder)
    found = {
        experiment.name: stored(experiment, store, protocol)
        for experiment in experiments
        if store.path(experiment.name).exists()
    }
    return {name: outcomes for name, outcomes in found.items() if outcomes}


def tables_folder(folder: Path, protocol: Protocol, usual: Protocol) -> Path:
    """Beside the stores; with other rounds or seeds than usual, in a folder of their own."""
    if (protocol.rounds, protocol.seeds) == (usual.rounds, usual.seeds):
        return folder
    return folder / f"{protocol.rounds}-rounds-{protocol.seeds}-seeds"


def publish(
    folder: Path, protocol: Protocol, experiments: Sequence[PaperExperiment] = ALL, target: Path | None = None
) -> Results:
    """Write tables, figures and verdicts of all that is finished; `target` is the stores' folder unless told."""
    results = all_results(folder, protocol, experiments)
    target = target or folder
    for name, outcomes in results.items():
        told = table.rows(name, outcomes)
        _write(target / f"{name}.md", table.markdown(EXPERIMENTS[name].title, told))
        _write(target / f"{name}.csv", table.as_csv(told))
        draw_figures(name, outcomes, target)
    if results:
        _write(target / "claims.md", claims.markdown(claims.verdicts(results)))
    return results


def draw_figures(name: str, outcomes: Sequence[ReproducedCurve], target: Path) -> None:
    """NAME.png and NAME-rates.png, unless they show these runs already."""
    curves = target / f"{name}.png"
    if not is_drawn(outcomes, curves):
        draw_curves(outcomes, curves)
        draw_grids(outcomes, _rates_path(target, name))


def paper_page(folder: Path) -> str:
    """All there is so far as one HTML page, tables and figures beside the stores brought up to date."""
    results = publish(folder, Protocol())
    if not results:
        raise FedamdError(f"{folder} holds no finished cell of the paper's experiments: run `fedamd reproduce` first")
    sections: list[PageSection] = [_facts(results), *_verdict_sections(claims.verdicts(results))]
    for name, outcomes in results.items():
        sections += _experiment_sections(EXPERIMENTS[name], outcomes)
    return build_page(
        "The paper's experiments, repeated", sections, subtitle="FedAMD: Wu et al., ICML 2023", contents=True
    )


def _facts(results: Results) -> Facts:
    outcomes = [outcome for some in results.values() for outcome in some]
    machines = sorted({_without_patch(run["machine"]) for outcome in outcomes for run in outcome.runs})
    waiting = [name for name in EXPERIMENTS if name not in results]
    facts = [
        ("experiments", f"{len(results)} of {len(EXPERIMENTS)}"),
        ("cells", f"{len(outcomes)} of {sum(len(EXPERIMENTS[name].cells) for name in results)}"),
        ("rounds", str(Protocol().rounds)),
        ("seeds", str(Protocol().seeds)),
        ("made on", "; ".join(machines)),
    ]
    return Facts(title="", note=f"Not run yet: {', '.join(waiting)}." if waiting else "", facts=facts)


def _without_patch(machine: str) -> str:
    """A machine with two numbers of each version."""
    return re.sub(r"(\d+\.\d+)\.\d+", r"\1", machine)


def _verdict_sections(told: Sequence[claims.ClaimVerdict]) -> list[PageSection]:
    so_far = " So far: cells that are not finished could change the answer." if any(v.provisional for v in told) else ""
    return [
        Table(
            title="The paper's claims",
            note=f"Computed from the runs below.{so_far}",
            columns=["claim", "verdict"],
            rows=[[cell(one.claim.text), cell(one.text, tone=_TONES[one.answer])] for one in told],
        ),
        Text(title="Evidence", parts=[(one.claim.text, "\n".join(one.evidence)) for one in told]),
    ]


def _experiment_sections(experiment: PaperExperiment, outcomes: Sequence[ReproducedCurve]) -> list[PageSection]:
    """A table and the curves of each panel, then maps of all rates."""
    sections: list[PageSection] = []
    for panel, own in table.panels(outcomes).items():
        told = table.rows(experiment.name, own)
        title = f"{experiment.title}, {panel}"
        remarks = table.footnote(told).replace("Δ:", "In parentheses:")
        note = " ".join(part for part in (experiment.notes, remarks) if part)
        sections.append(Table(title=title, note=note, columns=_columns(), rows=[_row(one) for one in told]))
        sections.append(_curves(own))
    if searched := [outcome for outcome in outcomes if outcome.grid]:
        sections.append(_rates(f"{experiment.title}: all rates", searched))
    return sections


def _rates(title: str, outcomes: Sequence[ReproducedCurve]) -> HeatMaps:
    """How every pair of rates did."""
    maps = []
    for outcome in outcomes:
        local, server, values = accuracies(outcome)
        shown = [[(f"{value:.0f}", value / 100) if value else ("–", None) for value in row] for row in values]
        rows, columns = ([f"{rate:g}" for rate in rates] for rates in (local, server))
        maps.append(
            {"label": f"{outcome.label}\n{outcome.cell.panel}", "rows": rows, "columns": columns, "cells": shown}
        )
    note = "Final accuracy in percent on seed 0; – diverged."
    return HeatMaps(title=title, note=note, down="η_l", across="η_s", maps=maps)


def _columns() -> list[str]:
    wide = [quantity.heading.replace(" to ", "\nto ").replace("final ", "final\n") for quantity in table.QUANTITIES]
    return ["method", *wide, "η_l, η_s", "rounds\nof each seed"]


def _row(row: table.Row) -> list[TableCell]:
    """What was measured, and below it what the paper has."""
    texts = table.cells(row, with_paper=False)
    cells = [cell(texts[0])]
    for quantity, text in zip(table.QUANTITIES, texts[2:], strict=False):
        printed = (
            f"\npaper {quantity.text(row.paper(quantity), '–')} ({table.deviation(row, quantity)})"
            if row.printed
            else ""
        )
        cells.append(cell(row.here(quantity), text + printed))
    return [*cells, cell(texts[1]), cell(texts[-2])]


def _curves(outcomes: Sequence[ReproducedCurve]) -> PageSection:
    """The curves of a panel, below its table; not all of their points, as there are many panels."""
    section = curve_section([thinned(curve(outcome), _EVERY) for outcome in outcomes], Target(Measure(), TARGET), PAPER)
    return replace(section, title="", note=f"{section.note} Every {_EVERY}th round is drawn.")


def _rates_path(folder: Path, name: str) -> Path:
    return folder / f"{name}-rates.png"


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FedamdError(f"cannot write {path}: {error.strerror}") from None
