"""`fedamd reproduce`: the paper's tables and figures, our numbers beside its own."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fedamd.cli.names import DEVICES, one_of
from fedamd.cli.show import console
from fedamd.studies.paper.experiments import EXPERIMENTS

if TYPE_CHECKING:
    from fedamd.studies.paper.claims import ClaimVerdict
    from fedamd.studies.paper.table import Row

FOLDER = Path("results") / "paper"


def register(app: typer.Typer) -> None:
    app.command("reproduce")(command)


def command(
    names: Annotated[
        list[str],
        typer.Argument(help=f"all, or some of {', '.join(EXPERIMENTS)}.", autocompletion=one_of(["all", *EXPERIMENTS])),
    ],
    device: Annotated[str, typer.Option(help="cpu or cuda.", autocompletion=one_of(DEVICES))] = "cpu",
    small: Annotated[bool, typer.Option("--quick", help="A few rounds of a small part, to see that it works.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Repetitions with the best rates (3 in the paper).")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds of every run (400 in the paper).")] = None,
    which: Annotated[
        list[str] | None,
        typer.Option("--only", help='Only cells whose label or panel contains this, as in "20 clients".'),
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(help="Rates to try: grid (all), or local (all η_l, Table 2's η_s). Default: as declared."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where finished runs are kept.")] = FOLDER,
) -> None:
    """Run the paper's experiments; finished runs are not repeated."""
    from fedamd.runs.progress import Progress
    from fedamd.studies.paper.claims import verdicts
    from fedamd.studies.paper.publish import ALL, publish, tables_folder
    from fedamd.studies.paper.reproduce import QUICK, Protocol, chosen_experiments, only, quick, reproduce
    from fedamd.studies.paper.table import rows

    usual = QUICK if small else Protocol()
    protocol = replace(usual, device=device, rates=rates, seeds=seeds or usual.seeds, rounds=rounds or usual.rounds)
    folder = out / "quick" if small else out
    experiments = [only(quick(one) if small else one, which or []) for one in chosen_experiments(names)]
    with Progress() as progress:
        for experiment, finished in reproduce(experiments, folder, protocol, progress, console.print):
            show_table(rows(experiment.name, finished))
    target = tables_folder(folder, protocol, usual)
    results = publish(folder, protocol, [quick(one) for one in ALL] if small else ALL, target)
    show_verdicts(verdicts(results), f"after {protocol.rounds} rounds" if small or target != folder else "")
    console.print(f"tables and figures in [bold]{escape(str(target))}[/]", highlight=False, soft_wrap=True)


def show_table(told: Sequence["Row"]) -> None:
    """Our numbers beside the paper's, a table for each panel."""
    from fedamd.studies.paper.table import QUANTITIES

    for panel in dict.fromkeys(row.outcome.cell.panel for row in told):
        table = Table("method", "η_l, η_s", box=None, title=f"{panel}: here / paper", title_justify="left")
        for quantity in QUANTITIES:
            table.add_column(quantity.heading, justify="right")
        for row in told:
            if row.outcome.cell.panel == panel:
                numbers = (f"{q.text(row.here(q))} / {q.text(row.paper(q), '–')}" for q in QUANTITIES)
                table.add_row(row.outcome.label, "{:g}, {:g}".format(*row.outcome.rates), *numbers)
        console.print(table)


def show_verdicts(told: Sequence["ClaimVerdict"], remark: str) -> None:
    """What that means for the paper's claims."""
    table = Table("claim", "verdict", box=None, title=remark, title_justify="left")
    for verdict in told:
        table.add_row(verdict.claim.text, verdict.text)
    console.print(table)
