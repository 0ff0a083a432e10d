"""Roles by name, so that an instruction names a function and never carries one."""

import importlib

from fedamd.algorithms.base import Algorithm, Role
from fedamd.errors import FedamdError

_OURS = "fedamd.algorithms."


def role_name(role: Role) -> str:
    """The name under which `find_role` finds this role: where it is defined, and as what."""
    return f"{role.run.__module__}:{role.run.__qualname__}"


def find_role(name: str, algorithm: Algorithm) -> Role:
    """The role of this name: one of this package's algorithms, or of the modules the run's own algorithm comes from."""
    module_name, _, attribute = name.partition(":")
    own = {kind.__module__ for kind in type(algorithm).__mro__}
    if not module_name.startswith(_OURS) and module_name not in own:
        raise FedamdError(f"role {name} belongs neither to this package nor to {type(algorithm).__name__}")
    found = getattr(importlib.import_module(module_name), attribute, None)
    if not isinstance(found, Role):
        raise FedamdError(f"there is no role {name}: is this the same version of the package as the server's?")
    return found
