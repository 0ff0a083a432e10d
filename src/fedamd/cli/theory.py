"""`fedamd theory`: rounds to ε as measured, beside what the theorems say."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from fedamd.studies.theory_check.results import StudyResult

PAGE = Path("docs") / "theory_vs_measurement.md"
FOLDER = Path("results") / "theory"
COLOURS = {"agrees": "green", "DISAGREES": "bold red", "not measured": "yellow"}


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("theory")(command)


def command(
    small: Annotated[
        bool, typer.Option("--quick", help="A few rounds, to see that it works: too short to conclude from.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The page to write.")] = PAGE,
    results: Annotated[Path, typer.Option(help="The folder for numbers and figures.")] = FOLDER,
) -> None:
    """Measure rounds to ε over ε, p, τ, A, b and the learning rate, and compare them with the theorems."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from fedamd.studies.theory_check.page import write
    from fedamd.studies.theory_check.protocol import FULL, QUICK
    from fedamd.studies.theory_check.studies import measure

    scale = QUICK if small else FULL
    console, errors = Console(), Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("", total=1.0)
        found = measure(scale, lambda name, share: bar.update(task, description=name, completed=share))
    page = write(found, scale, results, out, "fedamd theory --quick" if small else "fedamd theory")
    show(found, console)
    console.print(f"the page is [bold]{escape(str(page))}[/]", highlight=False, soft_wrap=True)


def show(found: list["StudyResult"], console: Console) -> None:
    """Print every expectation with its verdict."""
    table = Table("study", "expectation", "expected", "measured", "", title="Theory against measurement")
    for result in found:
        for verdict in result.verdicts:
            value = "–" if verdict.value is None else f"{verdict.value:.3g}"
            word = f"[{COLOURS[verdict.word]}]{verdict.word}[/]"
            table.add_row(result.title, escape(verdict.expectation.text), verdict.range, value, word)
    console.print(table)
