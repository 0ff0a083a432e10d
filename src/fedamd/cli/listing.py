"""`fedamd list`: what can be named in a config."""

import inspect
import json
from collections.abc import Callable
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fedamd.cli import names
from fedamd.cli.show import console
from fedamd.errors import FedamdError
from fedamd.registry import choose

Entries = dict[str, str]


def _algorithms() -> Entries:
    from fedamd.algorithms import ALGORITHMS

    return {name: method.description for name, method in ALGORITHMS.items()}


def _datasets() -> Entries:
    from fedamd.data import SOURCES

    return {name: source.description for name, source in SOURCES.items()}


def _models() -> Entries:
    from fedamd.models import MODELS

    return {name: model.description for name, model in MODELS.items()}


def _partitioners() -> Entries:
    from fedamd.data import PARTITIONERS

    return {name: (kind.__doc__ or "").split("\n")[0] for name, kind in PARTITIONERS.items()}


def _engines() -> Entries:
    from fedamd.engines import ENGINES

    return ENGINES


def _oracles() -> Entries:
    from fedamd.oracles.catalogue import ORACLES

    return {name: kind.description for name, kind in ORACLES.items()}


KINDS: dict[str, Callable[[], Entries]] = {
    "algorithms": _algorithms,
    "datasets": _datasets,
    "models": _models,
    "partitioners": _partitioners,
    "engines": _engines,
    "oracles": _oracles,
}


def register(app: typer.Typer) -> None:
    app.command("list")(command)


def command(
    kind: Annotated[str, typer.Argument(help=f"One of {', '.join(KINDS)}.", autocompletion=names.one_of(KINDS))],
    name: Annotated[
        str | None,
        typer.Argument(
            help="An algorithm: show its settings, their defaults and what they are.",
            autocompletion=names.one_of(names.ALGORITHMS),
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """List algorithms, datasets, models, partitioners, engines or oracles."""
    listed = choose(KINDS, kind, "list")
    if name is not None and kind != "algorithms":
        raise FedamdError(f"list {kind} {name}: only algorithms have settings to list")
    entries = listed() if name is None else _settings(name)
    if as_json:
        typer.echo(json.dumps(entries))
        return
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    meanings = {} if name is None else _meanings(name)
    for entry, description in entries.items():
        table.add_row(
            f"[bold]{entry}[/]", escape(description), *([escape(meanings[entry])] if entry in meanings else [])
        )
    console.print(table)


def _settings(name: str) -> Entries:
    from fedamd.algorithms import ALGORITHMS

    method = ALGORITHMS.find(name, "list algorithms")
    presets = dict(method.presets)
    options = inspect.signature(method.make).parameters.values()
    return {one.name: f"{presets.get(one.name, one.default)!r}" for one in options}


def _meanings(name: str) -> Entries:
    from fedamd.algorithms import ALGORITHMS

    meanings: Entries = getattr(ALGORITHMS.find(name, "list algorithms").make, "parameters", {})
    return meanings
