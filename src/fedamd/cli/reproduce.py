"""`fedamd reproduce`: the paper's tables and figures, our numbers beside its own."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fedamd.cli.show import Progress, console
from fedamd.paper.experiments import EXPERIMENTS
from fedamd.paper.reproduce import QUICK, Protocol, chosen_experiments, only, quick, reproduce

FOLDER = Path("results") / "paper"


def register(app: typer.Typer) -> None:
    app.command("reproduce")(command)


def command(
    names: Annotated[list[str], typer.Argument(help=f"all, or some of {', '.join(EXPERIMENTS)}.")],
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    small: Annotated[
        bool, typer.Option("--quick", help="A few rounds of a small share, to see that it works.")
    ] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Repetitions with the best rates (3 in the paper).")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds of every run (400 in the paper).")] = None,
    which: Annotated[
        list[str] | None, typer.Option("--only", help='Cells whose label or panel contains this, as "20 clients".')
    ] = None,
    rates: Annotated[str, typer.Option(help="grid: each cell's own best rates; table2: those chosen there.")] = "grid",
    out: Annotated[Path, typer.Option(help="Where finished runs are kept.")] = FOLDER,
) -> None:
    """Run the paper's experiments; what has been computed before is not computed again."""
    protocol = replace(QUICK if small else Protocol(), device=device, rates=rates)
    protocol = replace(protocol, seeds=seeds or protocol.seeds, rounds=rounds or protocol.rounds)
    folder = out / "quick" if small else out
    for experiment in chosen_experiments(names):
        chosen = only(quick(experiment) if small else experiment, which or [])
        with Progress() as progress:
            reproduce(chosen, folder, protocol, progress, console.print)
