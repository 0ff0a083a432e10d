"""Roles by name."""

import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from fedamd.algorithms import FedAMD, VRMarina
from fedamd.algorithms.base import Algorithm, Dialogue, Reply, Role, State, Turn, role
from fedamd.algorithms.fedamd import aim, aim_and_keep, mine
from fedamd.errors import FedamdError
from fedamd.flower.app.roles import find_role, role_name


@role("stroller")
def stroll(task: Any, batches: Sequence[Any], grad: Any) -> Reply:  # noqa: ARG001
    return Reply()


@dataclass(frozen=True)
class Own(Algorithm):
    """An algorithm of a user's own."""

    def round(self, state: State, turn: Turn) -> Dialogue:  # noqa: ARG002
        yield from ()
        return state


@pytest.mark.parametrize("one", [aim, aim_and_keep, mine])
def test_two_roles_of_one_name_are_told_apart(one: Role) -> None:
    assert find_role(role_name(one, FedAMD()), FedAMD()) is one


def test_a_role_made_to_measure_is_found_through_its_algorithm() -> None:
    sender = VRMarina(compressor="rand-k", fraction=0.25)
    name = role_name(sender.compress, sender)
    assert name == ":compress"
    assert find_role(name, VRMarina(compressor="rand-k", fraction=0.25)) is sender.compress


def test_a_users_own_role_belongs_to_the_users_own_algorithm_alone() -> None:
    name = role_name(stroll, Own())
    assert find_role(name, Own()) is stroll
    with pytest.raises(FedamdError, match="belongs neither"):
        find_role(name, FedAMD())


def test_a_role_that_the_users_module_imports_is_found_and_nothing_else_of_its_module_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in `from own_roles import stroll`."""
    other = types.ModuleType("own_roles")
    monkeypatch.setitem(sys.modules, "own_roles", other)
    exec("from fedamd.algorithms.base import Reply\ndef saunter(task, batches, grad): return Reply()", vars(other))
    with pytest.raises(FedamdError, match="belongs neither"):
        find_role("own_roles:saunter", Own())
    other.saunter = role("saunterer")(other.saunter)
    monkeypatch.setattr(sys.modules[__name__], "saunter", other.saunter, raising=False)
    assert find_role(role_name(other.saunter, Own()), Own()) is other.saunter
    with pytest.raises(FedamdError, match="there is no role"):
        find_role("own_roles:Reply", Own())


def test_a_role_nobody_could_find_is_not_sent() -> None:
    @role("hidden")
    def hidden(task: Any, batches: Sequence[Any], grad: Any) -> Reply:  # noqa: ARG001
        return Reply()

    with pytest.raises(FedamdError, match="cannot find the role 'hidden'"):
        role_name(hidden, Own())
