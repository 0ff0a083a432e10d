"""Runs in the space of their settings: places and colours are those of the numbers."""

import pytest

from fedamd.metrics import Measure
from fedamd.report.space import Place, heat_map, parallel

ERROR = Measure("mae", higher_is_better=False)
PLACES = [
    Place({"algorithm.eta_l": 0.01, "partition.name": "iid"}, 3.0, "finished"),
    Place({"algorithm.eta_l": 0.1, "partition.name": "classes"}, 1.0, "finished"),
    Place({"algorithm.eta_l": 1.0, "partition.name": "iid"}, None, "diverged"),
]


def test_a_cell_has_the_numbers_of_its_values() -> None:
    axes = {"algorithm.eta_l": [0.01, 0.1, 1.0], "partition.name": ["iid", "classes"], "rounds": [5]}
    shown = heat_map([Place({**one.point, "rounds": 5}, one.value, one.status) for one in PLACES], axes, ERROR)
    assert [key["label"] for key in shown.keys] == ["eta_l", "partition.name"]  # what does not vary is no axis
    assert [point["at"] for point in shown.points] == [[0, 0], [1, 1], [2, 0]]
    assert [point["text"] for point in shown.points] == ["3", "1", "diverged"]
    assert shown.higher is False


def test_numbers_far_apart_are_in_powers_and_the_smallest_error_is_on_top() -> None:
    """0.1 is half-way between 0.01 and 1 in powers of ten; an error of 1 is better than one of 3."""
    shown = parallel(PLACES, ["algorithm.eta_l", "partition.name"], ERROR)
    diverged, worst, best = shown.lines  # the best is drawn last, over the others
    assert best["at"] == [pytest.approx(0.5), 1.0, 1.0]
    assert worst["at"] == [0.0, 0.0, 0.0]
    assert (diverged["at"], diverged["good"]) == ([1.0, 0.0, None], None)
    assert shown.axes[-1]["ticks"] == [(0.0, "3"), (1.0, "1")]
    assert best["label"] == "eta_l = 0.1\npartition.name = classes\nmae: 1"
