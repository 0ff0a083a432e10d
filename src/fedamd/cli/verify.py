"""`fedamd verify`: whether the folders of runs are as they were written."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command("verify")(command)


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of runs, or of several runs.")],
) -> None:
    """Check every file of runs against its checksums; say what is wrong and what can be saved."""
    from fedamd.report.stored import run_folders
    from fedamd.runs.verify import verify

    verdicts = [verify(folder) for path in runs for folder in run_folders(path)]
    for verdict in verdicts:
        for sentence in verdict.wrong:
            typer.echo(f"{verdict.path}: {sentence}", err=True)
        typer.echo(f"{verdict.path}: {verdict.advice}")
    raise typer.Exit(0 if all(verdict.fine for verdict in verdicts) else 1)
