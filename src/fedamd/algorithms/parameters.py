"""Hyper-parameters say what they are: `eta_l: float = param(0.03, "η_l, the clients' step")` in a method's class body.

`help()` of the method then lists all of them, those it inherits too, and so does `fedamd list algorithms NAME`.
"""

import dataclasses
from typing import Any

HEADING = "Hyper-parameters:"


def param(default: Any, description: str) -> Any:
    """A field of a method's dataclass: its default, and what it is, with the paper's symbol where it has one."""
    return dataclasses.field(default=default, metadata={"description": description})


def described_parameters(method: type) -> dict[str, str]:
    """Every hyper-parameter of a class that is being defined, and of those it derives from, with its description."""
    found: dict[str, str] = {}
    for parent in reversed(method.__bases__):
        found |= getattr(parent, "parameters", {})
    found |= vars(method).get("parameters", {})
    own = {name: value for name, value in vars(method).items() if isinstance(value, dataclasses.Field)}
    return found | {name: one.metadata["description"] for name, one in own.items() if "description" in one.metadata}


def with_parameters(text: str | None, parameters: dict[str, str]) -> str | None:
    """A class's docstring, with its hyper-parameters at the end."""
    if not parameters or HEADING in (text or ""):
        return text
    width = max(map(len, parameters))
    lines = [f"    {name:<{width}}  {description}" for name, description in parameters.items()]
    return "\n".join([(text or "").rstrip(), "", f"    {HEADING}", *(f"    {line}" for line in lines)]).lstrip("\n")
