"""Search spaces: what a share of the way gives, and that every method's space holds its defaults and builds."""

import dataclasses

import pytest

from fedamd.algorithms import ALGORITHMS
from fedamd.algorithms.space import Choice, Linear, Log


def test_ranges():
    """Half way from 0.01 to 1 is 0.1 by factors, 0.505 by sums; thirds of three choices."""
    assert [Log(0.01, 1.0).at(u) for u in (0.0, 0.5)] == [0.01, 0.1]
    assert [Linear(0.01, 1.0).at(u) for u in (0.0, 0.5)] == [0.01, 0.505]
    assert [Choice(("a", "b", "c")).at(u) for u in (0.0, 0.34, 0.67, 0.999)] == ["a", "b", "c", "c"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_method_is_searched_among_its_own_settings_around_its_defaults(name):
    method = ALGORITHMS[name]
    defaults = {field.name: field.default for field in dataclasses.fields(method.make)} | dict(method.presets)
    assert "eta_s" in method.space or "eta_l" in method.space
    for key, where in method.space.items():
        assert key in defaults
        if isinstance(where, Log | Linear) and isinstance(defaults[key], float):
            assert where.low <= defaults[key] <= where.high, key
    for u in (0.0, 0.5, 0.999):
        method.make(**dict(method.presets) | {key: where.at(u) for key, where in method.space.items()})


def test_fedamd_is_searched_at_its_own_optimum():
    """Its default p is None, which stands for "optimal"."""
    assert "optimal" in ALGORITHMS["fedamd"].space["p"].values
