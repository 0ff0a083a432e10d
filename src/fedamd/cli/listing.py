"""`fedamd list`: what can be named in a config, and what each of it can be told."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from fedamd.cli import names
from fedamd.cli.fitting import Column, print_table
from fedamd.cli.show import console
from fedamd.errors import FedamdError
from fedamd.registry import Registry, choose


@dataclass(frozen=True)
class Listed:
    """Something that can be named: what it is, and what makes it of its options."""

    description: str
    make: Callable[..., Any] | None = None  # None: it has no options
    presets: Mapping[str, Any] | None = None


Entries = dict[str, Listed]


def _algorithms() -> Entries:
    from fedamd.algorithms import ALGORITHMS

    return {name: Listed(one.description, one.make, dict(one.presets)) for name, one in ALGORITHMS.items()}


def _datasets() -> Entries:
    from fedamd.data import SOURCES

    return {name: Listed(source.description, source.read) for name, source in SOURCES.items()}


def _models() -> Entries:
    from fedamd.models import MODELS

    return {name: Listed(model.description, model.make) for name, model in MODELS.items()}


def _partitioners() -> Entries:
    from fedamd.data import PARTITIONERS

    return {name: Listed(_first_line(kind), kind) for name, kind in PARTITIONERS.items()}


def _samplers() -> Entries:
    from fedamd.participation import SAMPLERS

    return {name: Listed(_first_line(kind), kind) for name, kind in SAMPLERS.items()}


def _schedules() -> Entries:
    from fedamd.algorithms.over_rounds import ROUND_SCHEDULES

    return {name: Listed(_first_line(kind), kind) for name, kind in ROUND_SCHEDULES.items()}


def _metrics() -> Entries:
    from fedamd.metrics import METRICS

    better = {True: "more is better", False: "less is better"}
    return {
        name: Listed(f"{_first_line(one.compute)} ({better[one.higher_is_better]})") for name, one in METRICS.items()
    }


def _callbacks() -> Entries:
    from fedamd.runs.callbacks import CALLBACKS

    return {name: Listed(one.description) for name, one in CALLBACKS.items()}


def _compressors() -> Entries:
    from fedamd.algorithms.compressors import Identity, Quantiser, RandK

    kinds = {"identity": Identity, "rand-k": RandK, "quantise": Quantiser}
    return {name: Listed(_first_line(kind), kind) for name, kind in kinds.items()}


def _engines() -> Entries:
    from fedamd.engines import ENGINES

    return {name: Listed(description) for name, description in ENGINES.items()}


def _oracles() -> Entries:
    from fedamd.oracles.catalogue import ORACLES

    return {name: Listed(kind.description) for name, kind in ORACLES.items()}


KINDS: dict[str, Callable[[], Entries]] = {
    "algorithms": _algorithms,
    "datasets": _datasets,
    "models": _models,
    "partitioners": _partitioners,
    "samplers": _samplers,
    "schedules": _schedules,
    "metrics": _metrics,
    "callbacks": _callbacks,
    "compressors": _compressors,
    "engines": _engines,
    "oracles": _oracles,
}


def _complete(context: typer.Context, incomplete: str) -> list[str]:
    """The names of the kind that stands before."""
    return names.one_of(names.LISTED.get(context.params.get("kind", ""), ()))(incomplete)


def register(app: typer.Typer) -> None:
    app.command("list")(command)


def command(
    kind: Annotated[str, typer.Argument(help=f"One of {', '.join(KINDS)}.", autocompletion=names.one_of(KINDS))],
    name: Annotated[
        str | None,
        typer.Argument(
            help="Show its settings, with defaults and meanings.",
            autocompletion=_complete,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List what a config can name, or the settings of one of them."""
    entries = choose(KINDS, kind, "list")()
    if name is None:
        _show({entry: {"": one.description} for entry, one in entries.items()}, as_json, flat=True)
    else:
        one = _found(kind, name, entries)
        _show(_settings(one), as_json, without=f"{name}: {one.description}. It has no settings.")


def _found(kind: str, name: str, entries: Entries) -> Listed:
    if ":" in name and kind == "algorithms":
        from fedamd.algorithms import ALGORITHMS

        own = ALGORITHMS.find(name, "list algorithms")
        return Listed(own.description, own.make, dict(own.presets))
    try:
        return Registry(kind, entries).find(name, f"list {kind}") if ":" not in name else entries[name]
    except KeyError:
        raise FedamdError(f"list {kind} {name}: only your own algorithms can be listed") from None


def _settings(one: Listed) -> dict[str, dict[str, str]]:
    from fedamd.options import options_of

    options = options_of(one.make, one.presets) if one.make is not None else []
    return {option.name: {"default": option.default, "meaning": option.meaning} for option in options}


def _show(rows: dict[str, dict[str, str]], as_json: bool, flat: bool = False, without: str = "") -> None:
    """Names down, what is told of them across; the last column is words, broken into lines where they are many."""
    if as_json:
        told = {name: next(iter(row.values())) if flat or len(row) == 1 else row for name, row in rows.items()}
        typer.echo(json.dumps(told))
        return
    if not rows:
        console.print(without, highlight=False)
        return
    headings = list(next(iter(rows.values())))
    columns = [Column("setting" if not flat else "", list(rows), words=True, tones=["bold"] * len(rows))]
    columns += [Column(heading, [row[heading] for row in rows.values()], words=True, breaks=heading in ("", "meaning"))
                for heading in headings]  # fmt: skip
    print_table(columns, console)


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().split("\n")[0].rstrip(".")
