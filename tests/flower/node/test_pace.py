"""When a node asks again."""

import itertools

import pytest
from flower_support import Clock

from fedamd.flower.node.pace import IDLE, TOGETHER, TOGETHER_WHEN_DUE, Pace


def of_a_run(clock: Clock, nodes: int) -> Pace:
    """The pace of one of so many nodes, which has just answered."""
    pace = Pace(clock.now, jitter=lambda: 1.0)
    pace.one_of(nodes)
    pace.has_answered()
    return pace


def questions(clock: Clock, pace: Pace, seconds: float) -> list[float]:
    """When it asks, in seconds from now."""
    asked, begun = [], clock.now()
    while clock.now() + (pause := pace.pause()) < begun + seconds:
        clock.sleep(pause)
        asked.append(clock.now() - begun)
    return asked


def test_a_node_asks_at_once_then_ever_more_rarely() -> None:
    clock = Clock()
    asked = questions(clock, of_a_run(clock, 20), 20)
    pauses = [round(later - sooner, 6) for sooner, later in zip([0.0, *asked], asked, strict=False)]
    assert pauses[0] == 20 / TOGETHER_WHEN_DUE
    assert pauses == sorted(pauses)
    assert pauses[-1] == 20 / TOGETHER


def test_all_nodes_together_ask_so_often_however_many_they_are() -> None:
    for nodes in (4, 20, 60):
        clock = Clock()
        pace = of_a_run(clock, nodes)
        clock.sleep(50)
        assert abs(nodes / pace.pause() - TOGETHER) < 1e-9


def test_a_node_does_not_ask_before_a_message_is_due_and_then_often() -> None:
    clock = Clock()
    pace = of_a_run(clock, 4)
    for gap in (10.0, 25.0, 10.0):  # it was not asked in one of the rounds
        clock.sleep(gap)
        pace.found_a_message()
        pace.has_answered()
    asked = questions(clock, pace, 12)
    assert asked[:2] == [3, 6], "at the idle pace until six tenths of ten seconds are over"
    assert [round(later - sooner, 6) for sooner, later in itertools.pairwise(asked[1:])] == [0.2] * 29


def test_a_run_that_becomes_faster_is_followed() -> None:
    clock = Clock()
    pace = of_a_run(clock, 4)
    last = 10.0
    for _ in range(30):
        pace.found_a_message()
        pace.has_answered()
        begun = clock.now()
        while clock.now() - begun < 0.3:  # when the message is there
            clock.sleep(pace.pause())
        last = clock.now() - begun
    assert last < 0.4


@pytest.mark.parametrize(("nodes", "due", "later", "idle"), [(200, 2, 10, 10), (1000, 10, 10, 30), (5000, 10, 10, 30)])
def test_many_nodes_ask_rarely_but_not_ever_more_rarely(nodes: int, due: float, later: float, idle: float) -> None:
    clock = Clock()
    pace = of_a_run(clock, nodes)
    assert pace.pause() == due
    clock.sleep(55)
    assert pace.pause() == later
    clock.sleep(10)
    assert pace.pause() == idle


def test_a_node_that_has_heard_nothing_for_a_minute_rests() -> None:
    clock = Clock()
    assert Pace(clock.now, jitter=lambda: 1.0).pause() == IDLE
    pace = of_a_run(clock, 4)
    clock.sleep(61)
    assert pace.pause() == IDLE


def test_a_superlink_that_is_slow_is_left_alone_for_a_multiple_of_what_it_took() -> None:
    """In a run five times as long, in no run fifty times."""
    for nodes, takes, pause in ((4, 0.1, 0.5), (1000, 0.2, 10.0), (1000, 3.0, 15.0), (1000, 19.0, 60.0)):
        clock = Clock()
        pace = of_a_run(clock, nodes)
        for _ in range(2):
            pace.was_told(takes)
        assert pace.pause() == pytest.approx(pause)
    idle = Pace(Clock().now, jitter=lambda: 1.0)
    for takes, pause in ((0.01, IDLE), (0.2, 10.0), (5.0, 60.0)):
        for _ in range(2):
            idle.was_told(takes)
        assert idle.pause() == pytest.approx(pause)


def test_one_slow_answer_is_no_sign_and_one_quick_answer_is() -> None:
    idle = Pace(Clock().now, jitter=lambda: 1.0)
    idle.was_told(5.0)
    assert idle.pause() == IDLE
    idle.was_told(5.0)
    assert idle.pause() == 60.0
    idle.was_told(0.01)
    assert idle.pause() == IDLE
