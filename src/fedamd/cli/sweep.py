"""`fedamd sweep`: a grid of runs, and the best of them."""

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from fedamd.cli.fitting import Column, print_table
from fedamd.cli.keys import setting
from fedamd.cli.show import TARGET_HELP, announce_theory, console

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
        typer.Option("--grid", metavar="KEY=V,V,…", help='A key and its values, or KEY=["V", "V"]; repeatable.'),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key for all points.", autocompletion=setting),
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="[METRIC=]VALUE", help=f"{TARGET_HELP}.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The sweep's folder; an unfinished sweep in it is continued.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
) -> None:
    """Run a grid over any config keys, in lockstep where possible, and choose the best.

    The best setting is chosen by the first of the config's `metrics`; without any, by accuracy, or by the test loss
    where nothing is classified.

    Points that differ only in `seed` are repetitions of one setting, and are averaged.
    """
    from fedamd.campaigns.grid import Grid
    from fedamd.campaigns.sweep import plan, sweep
    from fedamd.metrics import parse_target
    from fedamd.report.heatmap import draw_heatmap
    from fedamd.runs.config import parse_setting
    from fedamd.runs.progress import OverallProgress

    folder = out or Path("sweeps") / f"{datetime.now():%Y%m%d-%H%M%S}"
    changes = {"checkpoint_every": 50} | dict(map(parse_setting, settings or []))
    changes |= {"target": parse_target(target)} if target else {}
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
        typer.echo(f"interrupted: continue with the same command and --out {folder}", err=True)
        raise typer.Exit(130)


def _show(result: "Sweep", picture: Path | None) -> None:
    from fedamd.report.comparison import target_columns

    names, ranked, measure = result.grid.short_keys(), result.ranked, result.measure
    entries = [*ranked, *(entry for entry in result.entries if entry not in ranked)]
    keys = list(entries[0].point)
    table = [Column(names[key], [json.dumps(one.point[key]) for one in entries], words=True) for key in keys]
    table.append(Column(measure.label, [measure.text(entry.mean, 6) for entry in entries]))
    for rank, column in enumerate(target_columns(result.target) if result.target else [], start=2):
        values = [entry.to_target[column.key] for entry in entries]
        if any(value is not None for value in values):
            cells = ["–" if value is None else column.text(value) for value in values]
            table.append(Column(column.name, cells, rank))
    table.append(Column("status", [entry.status for entry in entries], 1, words=True))
    print_table(table, console)
    for path in (result.folder / "sweep.csv", result.folder / "best.toml", picture):
        if path and path.exists():
            console.print(escape(str(path)), highlight=False, soft_wrap=True)
