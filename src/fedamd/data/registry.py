"""Looks up what a user asked for by name, and says what there is when the name or an option is wrong."""

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fedamd.errors import FedamdError

Entry = TypeVar("Entry")


def look_up(kind: str, name: str, entries: Mapping[str, Entry]) -> Entry:
    """The entry of that name; `kind` is the word for it in the message."""
    if name in entries:
        return entries[name]
    near = difflib.get_close_matches(name, entries, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise FedamdError(f"there is no {kind} {name!r}; there are {', '.join(entries)}.{hint}")


def check_options(what: str, make: Callable[..., object], options: Mapping[str, Any]) -> None:
    """Refuses options that `make` does not take, and the lack of one that it needs."""
    parameters = inspect.signature(make).parameters
    takes = f"it takes {', '.join(parameters)}" if parameters else "it takes none"
    for option in options:
        if option not in parameters:
            raise FedamdError(f"{what} has no option {option}; {takes}")
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in options:
            raise FedamdError(f"{what} needs the option {name}")
