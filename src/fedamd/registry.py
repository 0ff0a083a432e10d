"""One rule for every named thing: a registered name, or "package.module:object", found without editing this package.

A user's modules are looked for where Python looks, in the current folder, and beside the config file that names them.
"""

import difflib
import importlib
import importlib.machinery
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from fedamd.errors import FedamdError, described

T = TypeVar("T")
_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_folders: list[Path] = []  # where users' modules are looked for, besides the current folder and Python's own places


class Registry(Mapping[str, T], Generic[T]):
    """Things of one kind by name. `adopt` turns an object of a user's into an entry, or says why it cannot be one."""

    def __init__(self, kind: str, entries: Mapping[str, T], adopt: Callable[[str, Any], T] | None = None) -> None:
        self.kind = kind
        self._entries = dict(entries)
        self._adopt = adopt or (lambda _, found: found)

    def __getitem__(self, name: str) -> T:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def register(self, name: str, entry: T) -> None:
        """Make an entry known under a name of its own, for this process."""
        if name in self._entries or ":" in name or not name:
            raise FedamdError(f"'{name}' cannot be registered as a {self.kind}: it must be new and have no colon")
        self._entries[name] = entry

    def find(self, name: str, where: str | None = None) -> T:
        """The entry of this name, or the user's own object at "package.module:object"."""
        place = where or self.kind
        if name in self._entries:
            return self._entries[name]
        if ":" not in name:
            raise FedamdError(
                f"{place}: there is no '{name}'{suggestion(name, self)}; there are {', '.join(self)}, "
                "or your own as package.module:object"
            )
        found = import_object(name, place)
        try:
            return self._adopt(name, found)
        except FedamdError as error:
            raise FedamdError(f"{place}: {error}") from None


def is_object_path(value: object) -> bool:
    """Whether this is a word of the form "package.module:object"."""
    return isinstance(value, str) and _PATH.fullmatch(value) is not None


def importable(folder: Path) -> None:
    """From now on, look for users' modules in this folder too."""
    resolved = folder.resolve()
    if resolved in _folders:
        _folders.remove(resolved)
    _folders.insert(0, resolved)
    _put_on_path(resolved)


def user_folders() -> list[str]:
    """The folders that users' modules were looked for in, other than Python's own."""
    return [str(folder) for folder in _folders if folder.is_dir()]


def suggestion(name: str, allowed: Iterable[str]) -> str:
    """' (did you mean …?)' where something is near."""
    near = difflib.get_close_matches(name, list(allowed), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def choose(registry: Mapping[str, T], name: str, where: str) -> T:
    """The entry of this name, of a kind that cannot be a user's own."""
    if name not in registry:
        raise FedamdError(f"{where}: there is no '{name}'{suggestion(name, registry)}; there are {', '.join(registry)}")
    return registry[name]


def check_options(
    what: str, make: Callable[..., object], options: Mapping[str, Any], given: Iterable[str] = ()
) -> None:
    """Refuse options that `make` does not take, and the lack of one it needs; `given` are passed to it in any case."""
    every = parameters_of(what, make).values()
    parameters = {one.name: one for one in every if one.name not in given and one.kind is not one.VAR_KEYWORD}
    open_ended = any(one.kind is one.VAR_KEYWORD for one in every)
    for name in options:
        if name not in parameters and not open_ended:
            takes = f"it takes {', '.join(parameters)}" if parameters else "it takes none"
            raise FedamdError(f"{what} has no option {name}{suggestion(name, parameters)}; {takes}")
    for name, parameter in parameters.items():
        needed = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
        if needed and name not in options:
            raise FedamdError(f"{what} needs the option {name}")


def parameters_of(what: str, make: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    """What `make` takes; some of Python's own types do not say."""
    try:
        return inspect.signature(make).parameters
    except (TypeError, ValueError) as error:
        raise FedamdError(f"{what} does not say what it takes: {error}") from None


def import_object(path: str, where: str) -> Any:
    """The object at "package.module:name"."""
    module_name, _, attribute = path.partition(":")
    if not is_object_path(path):
        raise FedamdError(f"{where}: '{path}' is not of the form package.module:name")
    found: Any = _module(module_name, where)
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [name for name in dir(found) if not name.startswith("_")]
            raise FedamdError(f"{where}: {module_name} has no '{attribute}'{suggestion(part, names)}")
        found = getattr(found, part)
    return found


def _module(name: str, where: str) -> ModuleType:
    _put_on_path(Path.cwd())
    _refuse_namesake(name.partition(".")[0], where)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise FedamdError(f"{where}: cannot import {name}: {error}") from error
        places = dict.fromkeys([str(Path.cwd()), *user_folders()])
        raise FedamdError(
            f"{where}: cannot import {name}: there is no module {error.name}; looked in {', '.join(places)} "
            "and on Python's path"
        ) from error
    except (ImportError, SyntaxError) as error:
        raise FedamdError(f"{where}: cannot import {name}: {error}") from error
    except Exception as error:
        raise FedamdError(f"{where}: cannot import {name}: {described(error)}") from error


def _refuse_namesake(package: str, where: str) -> None:
    """Two folders may have modules of one name, and Python imports the first alone: that must not pass unnoticed."""
    loaded = getattr(sys.modules.get(package), "__file__", None)
    for folder in _folders if loaded else []:
        spec = importlib.machinery.PathFinder.find_spec(package, [str(folder)])
        if spec and spec.origin and Path(spec.origin).resolve() != Path(str(loaded)).resolve():
            raise FedamdError(
                f"{where}: {folder} has a module {package}, but another of that name is in use already ({loaded}); "
                "give one of them another name"
            )


def _put_on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
