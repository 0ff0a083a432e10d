"""A problem that several tests share."""

import pytest

from fedamd.data.base import Dataset
from support import quadratic_problem


@pytest.fixture(scope="session")
def crowd() -> Dataset:
    """Five clients of one to four samples, in one dimension, different in centre and in curvature."""
    return quadratic_problem(
        [(1.0, 1.0), (2.0, 1.5)],
        [(-1.0, 3.0)],
        [(0.5, 0.5), (0.0, 1.0), (3.0, 2.0)],
        [(-2.0, 1.0), (-2.5, 2.0), (1.0, 0.5), (0.0, 1.0)],
        [(4.0, 1.0), (3.0, 1.0)],
    )
