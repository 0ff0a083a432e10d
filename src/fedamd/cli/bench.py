"""`fedamd bench`: how fast rounds are on this machine."""

import json
from collections.abc import Mapping
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
    quick: Annotated[bool, typer.Option("--quick", help="Five repetitions instead of nine.")] = False,
    model: Annotated[Network, typer.Option(help="One of the paper's networks.")] = Network.LENET5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Time a round of the paper's workload on every CPU path, as ratios to a plain PyTorch loop over clients."""
    from fedamd.bench import bench

    result = bench(model, 5 if quick else 9, announce=(lambda _: None) if as_json else console.print)
    if as_json:
        typer.echo(json.dumps(result))
        return
    _show("milliseconds of", result["seconds"], result["ratios"])
    _show("a whole round of", result["rounds"], result["round_ratios"])


def _show(title: str, seconds: Mapping[str, Mapping[str, float]], ratios: Mapping[str, float]) -> None:
    table = Table(title, *ratios, box=None, padding=(0, 2, 0, 0))
    for path, taken in seconds.items():
        table.add_row(path, *(f"{1e3 * taken[what]:.0f}" for what in ratios))
    table.add_row("[bold]plain loop / fastest[/]", *(f"[bold]{ratio:.1f}×[/]" for ratio in ratios.values()))
    console.print(table)
