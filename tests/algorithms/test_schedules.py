"""The anchor probabilities {p_t}, and which of them are refused."""

import pytest

from fedamd.algorithms import schedules
from fedamd.errors import FedamdError


def first(schedule: schedules.Schedule, count: int = 7) -> list[float]:
    return [schedule(t) for t in range(count)]


def test_constant():
    assert first(schedules.constant(0.3)) == [0.3] * 7


def test_sequential_begins_with_anchors():
    assert first(schedules.sequential(2)) == [1, 0, 1, 0, 1, 0, 1]
    assert first(schedules.sequential(3)) == [1, 0, 0, 1, 0, 0, 1]


@pytest.mark.parametrize("written", ["0,0,1", "{0, 0, 1}", "[0,0,1]", (0, 0, 1), [0.0, 0.0, 1.0]])
def test_a_pattern_repeats(written):
    assert first(schedules.pattern(written)) == [0, 0, 1, 0, 0, 1, 0]


def test_a_pattern_may_hold_probabilities_between():
    assert first(schedules.pattern("0.25,1"), 3) == [0.25, 1, 0.25]
    assert first(schedules.pattern("0.5"), 3) == [0.5] * 3


@pytest.mark.parametrize("p", [0, 1, -0.1, 1.5, float("nan")])
def test_a_constant_outside_the_open_interval_is_refused(p):
    with pytest.raises(FedamdError, match=r"strictly between 0 and 1.*use tau or pattern"):
        schedules.constant(p)


@pytest.mark.parametrize("tau", [1, 0, -3, 2.5, True])
def test_a_period_that_never_mines_is_refused(tau):
    with pytest.raises(FedamdError, match="tau must be a whole number of at least 2"):
        schedules.sequential(tau)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ("", "probabilities with commas"),
        ("0,one", "probabilities with commas"),
        ("0 1", "probabilities with commas"),
        ("0,1.5", "between 0 and 1"),
        ("0,nan", "between 0 and 1"),
        ((), "between 0 and 1"),
        ("1,1", "only anchors or only miners"),
        ("0", "only anchors or only miners"),
    ],
)
def test_a_pattern_that_cannot_work_is_refused(values, says):
    with pytest.raises(FedamdError, match=f"pattern.*{says}"):
        schedules.pattern(values)


def test_a_users_function_is_checked_as_it_is_used():
    schedule = schedules.checked(lambda t: 1 / (t + 1) if t < 3 else 1.01)
    assert first(schedule, 3) == [1, 1 / 2, 1 / 3]
    with pytest.raises(FedamdError, match=r"gave 1\.01 for round 3"):
        schedule(3)
