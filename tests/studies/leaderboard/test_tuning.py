"""Points of a space, and who goes on."""

from fedamd.algorithms.space import Choice, Linear, Log
from fedamd.studies.leaderboard.tuning import best, points, radical_inverse


def test_radical_inverses():
    """1, 2, 3, 6 = 110₂ mirrored: 0.1₂, 0.01₂, 0.11₂, 0.011₂; 5 = 12₃ is 0.21₃ = 7/9."""
    assert [radical_inverse(number, 2) for number in (1, 2, 3, 6)] == [0.5, 0.25, 0.75, 0.375]
    assert abs(radical_inverse(5, 3) - 7 / 9) < 1e-15


def test_the_published_point_comes_first_then_halton():
    """A side without a published value starts in its middle."""
    space = {"eta": Log(0.01, 1.0), "a": Linear(0.0, 1.0)}
    assert points(space, {"eta": 0.03}, 3) == [
        {"eta": 0.03, "a": 0.5},
        {"eta": 0.1, "a": 0.3333},
        {"eta": 0.03162, "a": 0.6667},
    ]


def test_no_point_twice():
    """A space of two points has no third."""
    assert points({"s": Choice((0.0, 1.0))}, {"s": 1.0}, 5) == [{"s": 1.0}, {"s": 0.0}]
    assert points({}, {}, 5) == [{}]


def test_the_best_go_on():
    """Of equal scores the earlier trial."""
    assert best({0: 0.5, 1: 0.7, 2: 0.7, 3: 0.1}, 2) == [1, 2]
