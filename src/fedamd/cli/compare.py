"""`fedamd compare`: several methods on one problem, one table and one figure."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fedamd.cli.names import ALGORITHMS, some_of
from fedamd.cli.show import announce_theory, console
from fedamd.torchrun import is_writer

if TYPE_CHECKING:
    from fedamd.campaigns.compare import Comparison
    from fedamd.runs.summary import Summary

DEFAULT = "fedamd,fedavg,scaffold"


def register(app: typer.Typer) -> None:
    app.command("compare")(command)


def command(
    configs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[CONFIG]…", help="TOML files: one problem, or one file for every method."),
    ] = None,
    algorithms: Annotated[
        str | None,
        typer.Option(
            help=f"Methods by name, with at most one config (default there: {DEFAULT}).",
            autocompletion=some_of(ALGORITHMS),
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key; algorithm.… goes to every method that has it."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Number of rounds T.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    target: Annotated[
        float | None, typer.Option(min=0, max=1, help="Target accuracy (default: the config's, else 0.75).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A new folder (default: one under compare/).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON and nothing else.")] = False,
) -> None:
    """Compare methods on the same clients, cohorts and initial model.

    Of a config's `[algorithm]` options, the other methods take over those that mean the same for all: the step sizes,
    the number of local steps, the batch sizes and the weights.
    """
    from fedamd.campaigns.compare import compare, contestants, default_folder
    from fedamd.report.curves import draw_curves
    from fedamd.report.figures import draw_costs
    from fedamd.report.stored import read_runs
    from fedamd.runs.config import parse_setting
    from fedamd.runs.progress import Progress

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
        comparison = compare(entries, out or default_folder(), target, progress)
    if not is_writer():
        return
    curves = draw_curves(read_runs([comparison.folder / row["folder"] for row in comparison.rows]))
    picture = draw_costs(curves, comparison.folder / "comparison.png", comparison.target)
    if as_json:
        told = {"target_accuracy": comparison.target, "folder": str(comparison.folder), "methods": comparison.rows}
        typer.echo(json.dumps(told))
    else:
        show(comparison)
        console.print(f"records in [bold]{comparison.folder}[/], figure in {picture}", highlight=False, soft_wrap=True)
    if comparison.rows[-1]["status"] == "interrupted":
        raise typer.Exit(130)


def show(comparison: "Comparison") -> None:
    """Print the rows, in the paper's units."""
    goal = f"to {100 * comparison.target:g}%"
    table = Table("method", title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("final", "best", f"rounds\n{goal}", f"gradients\n{goal} ×10⁵", f"×32 Mbit\n{goal}", "test loss"):
        table.add_column(heading, justify="right")
    for row in comparison.rows:
        table.add_row(row["method"], *_cells(row))
    console.print(table)


def _cells(row: "Summary") -> list[str]:
    from fedamd.report.curves import BIT_UNIT, GRADIENT_UNIT

    return [
        f"[red]{row['status']}[/]" if row["status"] != "finished" else _percent(row["final_accuracy"]),
        _percent(row["best_accuracy"]),
        _scaled(row["rounds_to_target"], 1),
        _scaled(row["gradient_samples_to_target"], GRADIENT_UNIT),
        _scaled(row["bits_to_target"], BIT_UNIT),
        _scaled(row["final_test_loss"], 1),
    ]


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}%"


def _scaled(value: float | None, unit: float) -> str:
    return "–" if value is None else f"{value / unit:.4g}"
