"""`fedamd new`: a small project of one's own, to be changed."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedamd.cli.show import console


def register(app: typer.Typer) -> None:
    app.command("new")(command)


def command(name: Annotated[Path, typer.Argument(help="The new project's folder.")]) -> None:
    """Make a small project of your own: data from a CSV, a model, a method, a config and a test."""
    from fedamd.new import new_project

    for file in new_project(name):
        console.print(escape(str(file)))
    console.print(f"\nNow: [bold]cd {escape(str(name))} && fedamd run experiment.toml[/]")
