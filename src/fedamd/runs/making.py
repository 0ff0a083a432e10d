"""Making a named thing with options a user wrote: types and values checked, mistakes told with section and key."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from fedamd.errors import FedamdError, at_work
from fedamd.registry import check_options, suggestion

T = TypeVar("T")


def make(kind: Callable[..., T], options: Mapping[str, Any], where: str) -> T:
    """What `kind` makes of these options: a dataclass, whose fields are checked one by one, or any function."""
    if not dataclasses.is_dataclass(kind):
        return _called(kind, options, where)
    allowed = [field.name for field in dataclasses.fields(kind)]
    for name in options:
        if name not in allowed:
            raise FedamdError(
                f"{where}.{name}: unknown key{suggestion(name, allowed)}; allowed are {', '.join(allowed)}"
            )
    refuse_booleans(options, {field.name: field.default for field in dataclasses.fields(kind)}, f"{where}.")
    with at_work(f"{where} cannot be made"):
        try:
            return cast(T, _adapter(kind).validate_python(dict(options)))
        except ValidationError as error:
            raise FedamdError(sentence(error, kind, where)) from None
        except FedamdError as error:
            raise FedamdError(f"{where}: {error}") from None


def option_names(kind: Callable[..., Any]) -> list[str]:
    """What it can be made with."""
    return list(inspect.signature(kind).parameters)


def refuse_booleans(values: Mapping[str, Any], defaults: Mapping[str, Any], where: str = "") -> None:
    """`true` would pass for the number 1."""
    for name, value in values.items():
        if isinstance(value, bool) and name in defaults and not isinstance(defaults[name], bool):
            raise FedamdError(f"{where}{name}: should be a number or a word, not {str(value).lower()}")


def sentence(error: ValidationError, kind: Any, where: str = "") -> str:
    """The first mistake pydantic found, as one sentence that names the key and the allowed values."""
    first = error.errors()[0]
    if isinstance(cause := first.get("ctx", {}).get("error"), FedamdError):
        return f"{where}: {cause}" if where else str(cause)
    names = [part for part in first["loc"] if isinstance(part, str) and not _is_type(part)][: 1 if where else 2]
    key = ".".join([*([where] if where else []), *names])
    if first["type"] == "extra_forbidden":
        allowed = list(kind.model_fields)
        return f"{key}: unknown key{suggestion(names[0], allowed)}; allowed are {', '.join(allowed)}"
    reasons = dict.fromkeys(
        _reason(one) for one in error.errors() if one["loc"][: len(names)] == first["loc"][: len(names)]
    )
    return f"{key}: {' or '.join(reasons)}, not {first['input']!r}"


def _called(function: Callable[..., T], options: Mapping[str, Any], where: str) -> T:
    with at_work(f"{where} cannot be made"):
        try:
            check_options(where, function, options)
            return function(**options)
        except FedamdError as error:
            raise FedamdError(str(error) if str(error).startswith(where) else f"{where}: {error}") from None


@functools.cache
def _adapter(kind: Callable[..., Any]) -> TypeAdapter[Any]:
    """Made once for each kind: a grid of rates makes the same method hundreds of times."""
    return TypeAdapter(kind)  # type: ignore[arg-type]


def _is_type(part: str) -> bool:
    """Of a value that may be of several types pydantic names the type it tried, as if it were a key."""
    return part in ("bool", "int", "float", "str") or "[" in part


def _reason(error: Any) -> str:
    if error["type"] == "model_type":
        return f'should be a section, as in {error["loc"][0]}.name = "…"'
    message: str = error["msg"]
    return message.removeprefix("Input ").removeprefix("Value error, ")
