"""`fedamd bench`: how fast rounds are on this machine."""

import json
from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table

from fedamd.cli.show import console


class Network(StrEnum):
    """What can be timed."""

    LENET5 = "lenet5"
    MLP = "mlp"


def register(app: typer.Typer) -> None:
    app.command("bench")(command)


def command(
    quick: Annotated[bool, typer.Option("--quick", help="Three repetitions instead of nine.")] = False,
    model: Annotated[Network, typer.Option(help="One of the paper's networks.")] = Network.LENET5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Time a round of the paper's workload on every CPU path, as ratios to a plain PyTorch loop over clients."""
    from fedamd.bench import PHASES, bench

    result = bench(model, 3 if quick else 9, announce=(lambda _: None) if as_json else console.print)
    if as_json:
        typer.echo(json.dumps(result))
        return
    table = Table("milliseconds", *PHASES, box=None, padding=(0, 2, 0, 0))
    for path, seconds in result["seconds"].items():
        table.add_row(path, *(f"{1e3 * seconds[phase]:.0f}" for phase in PHASES))
    table.add_row("[bold]plain loop / fastest[/]", *(f"[bold]{result['ratios'][phase]:.1f}×[/]" for phase in PHASES))
    console.print(table)
