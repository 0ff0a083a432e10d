"""Pages made from the code when the site is built: the public names, every config key, every command."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import typer
from mkdocs.structure.files import File, Files

import fedamd
from fedamd.algorithms import ALGORITHMS
from fedamd.algorithms.over_rounds import ROUND_SCHEDULES
from fedamd.cli.main import app
from fedamd.data import PARTITIONERS, SOURCES
from fedamd.models import MODELS
from fedamd.options import GIVEN, meanings_of
from fedamd.participation import SAMPLERS
from fedamd.runs.config import Config

SETTINGS = re.compile(r"^\| `(?P<name>\w+)` \|[^|]*\| (?P<meaning>[^|]+) \|$", re.MULTILINE)  # a row of a table


def on_files(files: Files, config: Any) -> Files:
    pages = {"python": python_page(), "config": config_page(), "commands": commands_page()}
    for name, text in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


# --- Python ---


def python_page() -> str:
    names = [f"::: {_home(name)}" for name in fedamd.__all__]
    return "\n\n".join(
        ["# Python", "What `import fedamd` offers; [a method of your own](../extending.md) is written with it.", *names]
    )


def _home(name: str) -> str:
    """Where a name is defined; where it is another name for something of Python's, where it is made one of ours."""
    thing = getattr(fedamd, name)
    ours = thing.__module__.startswith("fedamd.")
    return f"{thing.__module__}.{thing.__qualname__}" if ours else f"{fedamd._HOME_OF[name]}.{name}"


# --- the config ---


def config_page() -> str:
    lines = [
        "# Configuration",
        "A run is a TOML file. Every key can be changed on the command line (`--set algorithm.eta_l=0.03`) and from "
        "Python (`fedamd.run(rounds=50)`). What a key may not be is said in one sentence.",
        "## Keys of a run",
        *_table(_run_keys()),
        "",
        "## `[data]`",
        "`name` is one of these, or your own function as `package.module:function`, which returns a `Dataset`.",
        *_things((name, entry.description, entry.read) for name, entry in SOURCES.items()),
        "## `[partition]`",
        *_things((name, _first_line(kind), kind) for name, kind in PARTITIONERS.items()),
        "## `[model]`",
        "`name` is one of these, or your own function as `package.module:function`, which takes the data set.",
        *_things((name, entry.description, entry.make) for name, entry in MODELS.items()),
        "## `[algorithm]`",
        "`name` is one of these, or your own class as `package.module:Class`; [what they do](../algorithms.md).",
        *_things((name, method.description, method.make, method.presets) for name, method in ALGORITHMS.items()),
        "## `[sampler]`",
        "Which clients are asked in a round.",
        *_things((name, _first_line(kind), kind) for name, kind in SAMPLERS.items()),
        "## `[schedules]`",
        'Hyper-parameters that change with the round: `eta_l = {name = "cosine", rounds = 400}`. The value in '
        "`[algorithm]` is multiplied by the schedule's factor; your own is a function of the round, "
        "`package.module:function`.",
        *_things((name, _first_line(kind), kind) for name, kind in ROUND_SCHEDULES.items()),
    ]
    return "\n".join(lines)


def _run_keys() -> Iterator[tuple[str, str, str, str]]:
    sections = {"data", "partition", "model", "algorithm", "sampler", "schedules"}
    for name, field in Config.model_fields.items():
        if name not in sections:
            yield (
                name,
                _type(field.annotation),
                _value(field.get_default(call_default_factory=True)),
                meaning(Config, name),
            )


def meaning(owner: Callable[..., Any], name: str) -> str:
    """What a key means: from its description, the comment behind it, or a table of shared settings."""
    described = owner.model_fields[name].description if owner is Config else None
    return described or meanings_of(owner).get(name) or _shared_settings().get(name, "")


@cache
def _shared_settings() -> dict[str, str]:
    docs, found = Path(__file__).parents[1], {}
    for page in ("how-to/data.md", "algorithms.md"):
        rows = SETTINGS.finditer((docs / page).read_text(encoding="utf-8"))
        found |= {row["name"]: row["meaning"] for row in rows}
    return found


def _things(things: Any) -> Iterator[str]:
    for name, description, make, *presets in things:
        yield f"### `{name}` {{ #{name}-{_kind(make)} }}\n\n{description}\n"
        yield from _table(options_of(make, *presets))
        yield ""


def _kind(make: Callable[..., Any]) -> str:
    return getattr(make, "__name__", "data").strip("_").lower()


def options_of(make: Callable[..., Any], presets: Any = ()) -> list[tuple[str, str, str, str]]:
    """Name, type, default and meaning of what a thing can be told in a config."""
    fields = {field.name: field for field in dataclasses.fields(make)} if dataclasses.is_dataclass(make) else {}
    rows = []
    for one in inspect.signature(make).parameters.values():
        if one.name in GIVEN or one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL):
            continue
        kind = fields[one.name].type if one.name in fields else one.annotation
        default = dict(presets).get(one.name, one.default)
        rows.append(
            (one.name, _type(kind), "needed" if default is one.empty else _value(default), meaning(make, one.name))
        )
    return rows


def _table(rows: Any) -> Iterator[str]:
    rows = list(rows)
    if not rows:
        return
    yield "| key | type | default | meaning |\n|---|---|---|---|"
    for name, kind, default, means in rows:
        yield f"| `{name}` | {kind} | {default} | {means.replace('|', chr(92) + '|')} |"


def _type(kind: Any) -> str:
    text = (
        kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind)) if isinstance(kind, type) else str(kind)
    )
    return f"`{re.sub(r'(typing|collections.abc|fedamd)[.]([a-z_]+[.])*', '', text)}`".replace("|", "\\|")


def _value(default: Any) -> str:
    text = "nothing" if default is None else repr(default)
    return f"`{text}`".replace("|", "\\|")


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().split("\n")[0]


# --- commands ---


def commands_page() -> str:
    root = typer.main.get_command(app)
    return "\n".join(["# Commands", "What `fedamd COMMAND --help` says, on one page.", *_commands(root, "fedamd")])


def _commands(command: Any, name: str) -> Iterator[str]:
    for word, below in sorted(getattr(command, "commands", {}).items()):
        if isinstance(below, click.Group) or hasattr(below, "commands"):
            yield f"\n## `{name} {word}`\n\n{below.help or ''}"
            yield from _commands(below, f"{name} {word}")
        else:
            yield f"\n{'##' if name == 'fedamd' else '###'} `{name} {word}`\n\n{_escaped(below.help or '')}\n"
            yield "| | | |\n|---|---|---|"
            yield from (_parameter(one) for one in below.params if one.name != "help")


def _parameter(one: Any) -> str:
    name = (
        " ".join(f"`{option}`" for option in one.opts) if one.param_type_name == "option" else f"`{one.name.upper()}`"
    )
    kind = "" if getattr(one, "is_flag", False) else f"`{one.metavar or one.type.name.upper()}`".replace("|", "\\|")
    return f"| {name} | {kind} | {_escaped(getattr(one, 'help', '') or '')} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("[", "\\[")
