"""What a named thing can be told in a config: its options, their defaults, and what each of them means.

Meanings stand where the options are declared: in a method's `param`, or in the comment behind a field or an argument.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

FIELD = re.compile(r"^    (?P<name>\w+): [^#\n]*?(?:  # (?P<meaning>.*))?$", re.MULTILINE)
GIVEN = ("dataset", "clients", "seed", "targets")  # what a thing is given by the run, not by the config


@dataclass(frozen=True)
class Option:
    """One of them."""

    name: str
    default: str  # as it is written in Python; "needed" where there is none
    meaning: str


def options_of(make: Callable[..., Any], presets: Mapping[str, Any] | None = None) -> list[Option]:
    """The options of a class or function, with a method's presets in place of defaults."""
    meanings = meanings_of(make)
    options = []
    for one in inspect.signature(make).parameters.values():
        if one.name in GIVEN or one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL):
            continue
        default = (presets or {}).get(one.name, one.default)
        told = "needed" if default is one.empty else repr(default)
        options.append(Option(one.name, told, meanings.get(one.name, "")))
    return options


def meanings_of(owner: Callable[..., Any]) -> dict[str, str]:
    """By name: of a class with its parents, or of a function's arguments."""
    found: dict[str, str] = {}
    owner = owner.func if isinstance(owner, partial) else owner
    for one in reversed(owner.__mro__ if isinstance(owner, type) else [inspect.unwrap(owner)]):
        if one.__module__.startswith("fedamd"):
            fields = FIELD.finditer(inspect.getsource(one))
            found |= {field["name"]: field["meaning"] for field in fields if field["meaning"]}
    described = dataclasses.fields(owner) if dataclasses.is_dataclass(owner) else ()
    found |= {one.name: one.metadata["description"] for one in described if "description" in one.metadata}
    return found | getattr(owner, "parameters", {})
