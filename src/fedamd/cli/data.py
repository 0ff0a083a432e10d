"""`fedamd data`: which data sets are here, and fetching those that are not."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedamd.cli.names import FETCHED, one_of
from fedamd.cli.show import console

group = typer.Typer(help="Find and fetch data sets.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="data")


@group.command("list")
def list_command(as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False) -> None:
    """Every data set, and where it was found."""
    from fedamd.data import SOURCES, where

    found = {name: str(where(name) or ("embedded" if source.embedded else "")) for name, source in SOURCES.items()}
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = Table("name", "what it is", "where", box=None, padding=(0, 2, 0, 0))
    for name, place in found.items():
        table.add_row(f"[bold]{name}[/]", SOURCES[name].description, place or SOURCES[name].obtain)
    console.print(table)


@group.command("fetch")
def fetch_command(
    name: Annotated[
        str, typer.Argument(help="The data set, as `fedamd data list` names it.", autocompletion=one_of(FETCHED))
    ],
    folder: Annotated[Path | None, typer.Option(help="Where to put it (default: the user's cache folder).")] = None,
) -> None:
    """Download a data set and check it."""
    from fedamd.data import fetch

    console.print(f"{name} is in {fetch(name, folder)}", highlight=False, soft_wrap=True)
