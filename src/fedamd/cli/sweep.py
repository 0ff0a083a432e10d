"""`fedamd sweep`: a grid of runs, and the best of them."""

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fedamd.cli.show import announce_theory, console

if TYPE_CHECKING:
    from fedamd.campaigns.sweep import Sweep


def register(app: typer.Typer) -> None:
    app.command("sweep")(command)


def command(
    config: Annotated[
        Path | None, typer.Argument(help="A TOML file; without one, the defaults of `fedamd run`.")
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option("--grid", metavar="KEY=V,V,…", help='A key and its values, or KEY=["V", "V"]; give several.'),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key for all points.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The sweep's folder; the sweep begun in it is gone on with.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
) -> None:
    """Run a grid over any config keys, in lockstep where possible, and choose the best final accuracy.

    Points that differ in `seed` alone are repetitions: their mean counts.
    """
    from fedamd.campaigns.grid import Grid
    from fedamd.campaigns.sweep import plan, sweep
    from fedamd.report.heatmap import draw_heatmap
    from fedamd.runs.config import parse_setting
    from fedamd.runs.progress import OverallProgress

    folder = out or Path("sweeps") / f"{datetime.now():%Y%m%d-%H%M%S}"
    changes = {"checkpoint_every": 50} | dict(map(parse_setting, settings or []))
    planned = plan(config, Grid.parse(grid or []), folder, changes)
    waiting = [one for one, _ in planned.waiting()]
    announce_theory(waiting, quiet=as_json)
    with OverallProgress([one.rounds for one in waiting], quiet=as_json) as progress:
        result = sweep(planned, progress)
    picture = draw_heatmap(result, folder / "heatmap.png")
    if as_json:
        typer.echo((folder / "sweep.json").read_text(encoding="utf-8").strip())
    else:
        _show(result, picture)
    if result.interrupted:
        typer.echo(f"interrupted: go on with the same command and --out {folder}", err=True)
        raise typer.Exit(130)


def _show(result: "Sweep", picture: Path | None) -> None:
    from fedamd.campaigns.sweep import ACCURACY

    accurate = result.measure == ACCURACY
    names = result.grid.short_keys()
    table = Table(*(names[key] for key in result.entries[0].point), box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("accuracy" if accurate else "test loss", justify="right")
    table.add_column("status")
    ranked = result.ranked
    for entry in (*ranked, *(entry for entry in result.entries if entry not in ranked)):
        value = "–" if entry.mean is None else f"{100 * entry.mean:.2f}%" if accurate else f"{entry.mean:.6g}"
        table.add_row(*(escape(json.dumps(v)) for v in entry.point.values()), value, entry.status)
    console.print(table)
    for path in (result.folder / "sweep.csv", result.folder / "best.toml", picture):
        if path and path.exists():
            console.print(escape(str(path)), highlight=False, soft_wrap=True)
