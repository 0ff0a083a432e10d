"""`fedamd sweep`: a grid of runs, and the best of them."""

import json
import math
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedamd.cli.show import Progress, console
from fedamd.report.heatmap import draw_heatmap
from fedamd.runs.config import parse_setting
from fedamd.runs.sweep import Grid, Sweep, sweep


def register(app: typer.Typer) -> None:
    app.command("sweep")(command)


def command(
    config: Annotated[
        Path | None, typer.Argument(help="A TOML file; without one, the defaults of `fedamd run`.")
    ] = None,
    grid: Annotated[
        list[str] | None, typer.Option("--grid", metavar="KEY=V,V,…", help="A key and its values; give several.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key for all points.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The sweep's folder; one that was begun is gone on with.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
) -> None:
    """Run a grid over any config keys, in lockstep where possible, and choose the best final accuracy."""
    folder = out or Path("sweeps") / f"{datetime.now():%Y%m%d-%H%M%S}"
    parsed = Grid.parse(grid or [])
    changes = {"checkpoint_every": 50} | dict(map(parse_setting, settings or []))
    with Progress(quiet=as_json) as progress:
        result = sweep(config, parsed, folder, changes, progress)
    picture = draw_heatmap(result, folder / "heatmap.png")
    if as_json:
        typer.echo((folder / "sweep.json").read_text(encoding="utf-8").strip())
        return
    console.print(_table(result))
    for path in (folder / "sweep.csv", folder / "best.toml", picture):
        if path and path.exists():
            console.print(str(path), highlight=False, soft_wrap=True)


def _table(result: Sweep) -> Table:
    table = Table(*(key.rpartition(".")[2] for key in result.entries[0].point), "accuracy", "status", box=None)
    for entry in sorted(result.entries, key=lambda entry: -entry.mean):
        accuracy = f"{100 * entry.mean:.2f}%" if math.isfinite(entry.mean) else "–"
        table.add_row(*(json.dumps(v) for v in entry.point.values()), accuracy, "/".join(sorted(set(entry.statuses))))
    return table
