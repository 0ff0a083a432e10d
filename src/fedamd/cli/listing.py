"""`fedamd list`: what can be named in a config."""

import dataclasses
import json
from collections.abc import Callable
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fedamd.algorithms import ALGORITHMS
from fedamd.cli.show import console
from fedamd.data import PARTITIONERS, SOURCES
from fedamd.engines import ENGINES, ORACLES
from fedamd.errors import FedamdError
from fedamd.lookup import choose
from fedamd.models import MODELS

KINDS = {
    "algorithms": lambda: {name: method.description for name, method in ALGORITHMS.items()},
    "datasets": lambda: {name: source.description for name, source in SOURCES.items()},
    "models": lambda: {name: model.description for name, model in MODELS.items()},
    "partitioners": lambda: {name: (kind.__doc__ or "").split("\n")[0] for name, kind in PARTITIONERS.items()},
    "engines": lambda: ENGINES,
    "oracles": lambda: ORACLES,
}


def register(app: typer.Typer) -> None:
    app.command("list")(command)


def command(
    kind: Annotated[str, typer.Argument(help=f"One of {', '.join(KINDS)}.")],
    name: Annotated[str | None, typer.Argument(help="An algorithm: show its settings and their defaults.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """List algorithms, datasets, models, partitioners, engines or oracles."""
    listed: Callable[[], dict[str, str]] = choose(KINDS, kind, "list")
    if name is not None and kind != "algorithms":
        raise FedamdError(f"list {kind} {name}: only algorithms have settings to list")
    entries = listed() if name is None else _settings(name)
    if as_json:
        typer.echo(json.dumps(entries))
        return
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for entry, description in entries.items():
        table.add_row(f"[bold]{entry}[/]", escape(description))
    console.print(table)


def _settings(name: str) -> dict[str, str]:
    method = choose(ALGORITHMS, name, "list algorithms")
    presets = dict(method.presets)
    return {field.name: f"{presets.get(field.name, field.default)!r}" for field in dataclasses.fields(method.make)}  # type: ignore[arg-type]
