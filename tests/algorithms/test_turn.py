"""The draws of a round: each address gives one, and the first of each kind is what it always was."""

import pytest

from fedamd import draw
from fedamd.algorithms.base import Federation, Turn
from fedamd.draw import Purpose
from fedamd.errors import FedamdError


def turn(t=3):
    return Turn(t, 7, Federation(4, 2, [1, 1, 1, 1]))


def test_the_first_draw_of_each_kind_is_as_ever():
    assert turn().coin(0.5, client=2) == (draw.uniform(7, Purpose.COIN, 3, 2) < 0.5)
    assert turn().coin(0.5) == (draw.uniform(7, Purpose.COIN, 3, -1) < 0.5)
    assert turn().choose(range(4)) == int(4 * draw.uniform(7, Purpose.CHOICE, 3))


def test_a_second_draw_has_an_index_of_its_own():
    coins = [[Turn(t, 7, turn().federation).coin(0.5, index=index) for t in range(64)] for index in (0, 1, 2)]
    assert coins[0] != coins[1] != coins[2] != coins[0]
    choices = [[Turn(t, 7, turn().federation).choose(range(4), index=index) for t in range(64)] for index in (0, 1)]
    assert choices[0] != choices[1]


def test_the_same_draw_twice_is_refused():
    one = turn()
    one.coin(0.5)
    one.coin(0.5, client=1)
    with pytest.raises(FedamdError, match=r"turn\.coin was called twice in round 3 .* index=1\)"):
        one.coin(0.9)
    one.choose([1, 2])
    with pytest.raises(FedamdError, match=r"turn\.choose was called twice in round 3"):
        one.choose([0, 3])
