"""`fedamd compare`: several methods on one problem, one table and one figure."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedamd.cli.fitting import Column, print_table
from fedamd.cli.keys import setting
from fedamd.cli.names import ALGORITHMS, some_of
from fedamd.cli.show import TARGET_HELP, announce_theory, console
from fedamd.torchrun import is_writer

if TYPE_CHECKING:
    from fedamd.campaigns.compare import Comparison

DEFAULT = "fedamd,fedavg,scaffold"


def register(app: typer.Typer) -> None:
    app.command("compare")(command)


def command(
    configs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[CONFIG]…", help="TOML files: one for the problem, or one for each method."),
    ] = None,
    algorithms: Annotated[
        str | None,
        typer.Option(
            help=f"Methods by name, with at most one config (default: {DEFAULT}).",
            autocompletion=some_of(ALGORITHMS),
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a key; algorithm.… goes to every method that has it.",
            autocompletion=setting,
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Number of rounds T.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed for all randomness.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="[METRIC=]VALUE", help=f"{TARGET_HELP} (default: the config's, else 0.75).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A new folder (default: one under compare/).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON and nothing else.")] = False,
) -> None:
    """Compare methods on the same clients, cohorts and initial model.

    The methods share the config's options that mean the same for all of them: step sizes, number of local steps, batch
    sizes and weights.
    """
    from fedamd.campaigns.compare import compare, contestants, default_folder
    from fedamd.metrics import parse_target
    from fedamd.report.curves import draw_curves
    from fedamd.report.figures import draw_costs
    from fedamd.report.stored import read_runs
    from fedamd.runs.config import parse_setting
    from fedamd.runs.progress import Progress
    from fedamd.runs.summary import told_target

    words: dict[str, Any] = {"rounds": rounds, "seed": seed}
    changes = dict(map(parse_setting, settings or [])) | {key: v for key, v in words.items() if v is not None}
    files = configs or []
    chosen = algorithms or (DEFAULT if len(files) < 2 else "")
    entries, notes = contestants(files, [name.strip() for name in chosen.split(",") if name.strip()], changes)
    for note in notes if is_writer() else []:
        typer.echo(note, err=True)
    quiet = as_json or not is_writer()
    announce_theory(entries, quiet)
    with Progress(quiet, among=entries) as progress:
        comparison = compare(entries, out or default_folder(), parse_target(target) if target else None, progress)
    if not is_writer():
        return
    curves = draw_curves(read_runs([comparison.folder / row["folder"] for row in comparison.rows]))
    picture = draw_costs(curves, comparison.folder / "comparison.png", comparison.target, comparison.measure.name)
    if as_json:
        told = told_target(comparison.target) | {"folder": str(comparison.folder), "methods": comparison.rows}
        typer.echo(json.dumps(told))
    else:
        show(comparison)
        console.print(f"records in [bold]{comparison.folder}[/], figure in {picture}", highlight=False, soft_wrap=True)
    if comparison.rows[-1]["status"] == "interrupted":
        raise typer.Exit(130)


def show(comparison: "Comparison") -> None:
    """Print the rows; the best of a column is marked."""
    from fedamd.report.comparison import columns_for

    rows = comparison.rows
    odd = ["" if row["status"] == "finished" else "red" for row in rows]
    known = {key for row in rows for key, value in row.items() if value is not None}
    table = [Column("method", [row["method"] for row in rows], words=True)]
    if any(odd):
        table.append(Column("status", [row["status"] for row in rows], 1, odd, words=True))
    for rank, column in enumerate(columns_for(comparison.measure, comparison.target, known), start=2):
        values = [row.get(column.key) for row in rows]
        there = [value for value in values if value is not None]
        best = column.best(there) if column.best and there else None
        tones = ["bold cyan" if value is not None and value == best and len(rows) > 1 else "" for value in values]
        cells = ["–" if value is None else column.text(value) for value in values]
        table.append(Column(column.name, cells, rank, tones))
    print_table(table, console)
