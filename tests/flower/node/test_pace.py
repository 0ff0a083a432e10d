"""When a node asks again."""

from flower_support import Clock

from fedamd.flower.node.pace import IDLE, TOGETHER, Pace


def settled(nodes: int) -> float:
    """The pause of one of so many nodes, a while after a message."""
    clock = Clock()
    pace = Pace(clock.now, jitter=lambda: 1.0)
    pace.one_of(nodes)
    pace.had_a_message()
    pauses = [pace.pause() for _ in range(60)]
    assert pauses[0] < 0.05
    assert pauses == sorted(pauses)
    return pauses[-1]


def test_all_nodes_together_ask_20_times_a_second_from_4_to_60_of_them() -> None:
    for nodes in (4, 20, 60):
        assert abs(nodes / settled(nodes) - TOGETHER) < 1e-9


def test_no_node_asks_more_rarely_than_flowers_own() -> None:
    assert settled(1000) == IDLE


def test_a_node_that_has_heard_nothing_for_a_minute_rests() -> None:
    clock = Clock()
    pace = Pace(clock.now, jitter=lambda: 1.0)
    assert pace.pause() == IDLE
    pace.one_of(4)
    pace.had_a_message()
    clock.sleep(61)
    pauses = [pace.pause() for _ in range(60)]
    assert pauses[-1] == IDLE
