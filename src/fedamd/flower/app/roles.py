"""Roles by name, so that an instruction names a function and never carries one.

A role is named by where it is defined ("fedamd.algorithms.local:walk"), or, where an algorithm makes it to measure, by
the property of the algorithm that gives it (":compress"). A client looks for it in this package and among what the
modules of the run's own algorithm know; those the run's config has named. No message makes a client import anything
else.
"""

import importlib
import sys

from fedamd.algorithms.base import Algorithm, Role
from fedamd.errors import FedamdError

_OURS = "fedamd.algorithms."


def role_name(role: Role, algorithm: Algorithm) -> str:
    """The name under which `find_role` finds this role."""
    module, function = role.run.__module__, role.run.__qualname__
    if isinstance(getattr(sys.modules[module], function, None), Role):
        return f"{module}:{function}"
    kind = type(algorithm)
    for attribute in dir(kind):
        if isinstance(getattr(kind, attribute), property) and getattr(algorithm, attribute) is role:
            return f":{attribute}"
    raise FedamdError(
        f"clients cannot find the role '{role.name}' by name: define it at the top of {module}, or make it a property "
        f"of {kind.__name__}"
    )


def _known_to(kind: type[Algorithm]) -> list[Role]:
    """The roles that the modules of an algorithm and of its bases define or import."""
    modules = [sys.modules[base.__module__] for base in kind.__mro__ if base.__module__ in sys.modules]
    return [one for module in modules for one in vars(module).values() if isinstance(one, Role)]


def find_role(name: str, algorithm: Algorithm) -> Role:
    """The role of this name: one of this package's algorithms, or one that the run's own algorithm can have meant."""
    module_name, _, attribute = name.partition(":")
    kind = type(algorithm)
    if not module_name and isinstance(getattr(kind, attribute, None), property):
        found = getattr(algorithm, attribute)
    elif module_name.startswith(_OURS):
        found = getattr(importlib.import_module(module_name), attribute, None)
    elif module_name in {base.__module__ for base in kind.__mro__} | {one.run.__module__ for one in _known_to(kind)}:
        found = getattr(sys.modules[module_name], attribute, None)
    else:
        raise FedamdError(f"role {name} belongs neither to this package nor to {kind.__name__}")
    if not isinstance(found, Role):
        raise FedamdError(f"there is no role {name}: is this the same version of the package as the server's?")
    return found
