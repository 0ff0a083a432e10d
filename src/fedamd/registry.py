"""Finding things by name: in a registry, with a suggestion for a misspelt name, or as "package.module:object"."""

import difflib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from fedamd.errors import FedamdError

T = TypeVar("T")


def suggestion(name: str, allowed: Iterable[str]) -> str:
    """' (did you mean …?)' where something is near."""
    near = difflib.get_close_matches(name, list(allowed), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def choose(registry: Mapping[str, T], name: str, where: str) -> T:
    """The entry of this name."""
    if name not in registry:
        raise FedamdError(f"{where}: there is no '{name}'{suggestion(name, registry)}; there are {', '.join(registry)}")
    return registry[name]


def check_options(
    what: str, make: Callable[..., object], options: Mapping[str, Any], given: Iterable[str] = ()
) -> None:
    """Refuse options that `make` does not take, and the lack of one it needs; `given` are passed to it in any case."""
    parameters = {name: one for name, one in inspect.signature(make).parameters.items() if name not in given}
    for name in options:
        if name not in parameters:
            takes = f"it takes {', '.join(parameters)}" if parameters else "it takes none"
            raise FedamdError(f"{what} has no option {name}{suggestion(name, parameters)}; {takes}")
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in options:
            raise FedamdError(f"{what} needs the option {name}")


def import_object(path: str, where: str) -> Any:
    """The object at "package.module:name", looked for in the current folder too."""
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise FedamdError(f"{where}: '{path}' is not of the form package.module:name")
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except (ImportError, SyntaxError) as error:
        raise FedamdError(f"{where}: cannot import {module_name}: {error}") from error
    if not hasattr(module, attribute):
        names = [name for name in vars(module) if not name.startswith("_")]
        raise FedamdError(f"{where}: {module_name} has no '{attribute}'{suggestion(attribute, names)}")
    return getattr(module, attribute)
