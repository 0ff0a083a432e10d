"""A problem of the paper's size that tests vary; property tests draw the same examples every time, without a clock."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

from fedamd.theory.problem import Problem

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

DEFAULTS: dict[str, Any] = {
    "M": 100,
    "A": 20,
    "K": 10,
    "b_small": 4,
    "L": 2.0,
    "L_sigma": 3.0,
    "sigma": 5.0,
    "delta": 1.5,
    "epsilon": 0.01,
    "n": 600,
    "d": 1000,
}


@pytest.fixture(scope="session")
def make_problem() -> Callable[..., Problem]:
    def make(**changes: Any) -> Problem:
        return Problem(**(DEFAULTS | changes))

    return make
