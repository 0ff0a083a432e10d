"""Hyper-parameters that change with the round."""

import math

import pytest

from fedamd.algorithms import FedAMD, FedAvg
from fedamd.algorithms.over_rounds import Constant, Cosine, Exponential, Step, at_round, check_scheduled
from fedamd.errors import FedamdError


def test_a_cosine_starts_at_1_is_half_way_in_the_middle_and_stays_at_its_end() -> None:
    """final + (1 − final)·½(1 + cos π·t/T): with T = 10, final = 0.2 it is 1, 0.6 and 0.2."""
    cosine = Cosine(rounds=10, final=0.2)
    assert [cosine(0), cosine(5), cosine(10), cosine(25)] == pytest.approx([1.0, 0.6, 0.2, 0.2])


def test_steps_drop() -> None:
    step = Step(every=3, drop=0.5)
    assert [step(t) for t in (0, 2, 3, 5, 6)] == [1.0, 1.0, 0.5, 0.5, 0.25]


def test_an_exponential_is_a_power() -> None:
    assert Exponential(rate=0.998)(400) == pytest.approx(0.998**400)


def test_a_warm_up_grows_evenly_and_the_schedule_begins_after_it() -> None:
    """Three rounds of warm-up: ¼, ½, ¾, then the schedule's own 1, 0.5, …"""
    warmed = Step(every=1, drop=0.5, warm_up=3)
    assert [warmed(t) for t in range(5)] == [0.25, 0.5, 0.75, 1.0, 0.5]
    assert [Constant(warm_up=1)(t) for t in range(3)] == [0.5, 1.0, 1.0]


def test_values_are_multiplied_and_whole_numbers_rounded() -> None:
    method = FedAvg(eta_l=0.4, steps=10, small_batch=3)
    there = at_round(
        method, {"eta_l": Exponential(rate=0.5), "steps": lambda _: 0.26, "small_batch": lambda _: 0.01}, 2
    )
    assert (there.eta_l, there.steps, there.small_batch) == (pytest.approx(0.1), 3, 1)
    assert method.eta_l == 0.4


def test_without_schedules_the_method_itself_is_taken() -> None:
    method = FedAvg()
    assert at_round(method, {}, 7) is method


@pytest.mark.parametrize("bad", [-1.0, 0.0, math.nan, math.inf])
def test_a_factor_that_is_not_positive_is_refused(bad: float) -> None:
    with pytest.raises(FedamdError, match=r"schedules.eta_l gave .* for round 3: a factor is a finite number above 0"):
        at_round(FedAvg(), {"eta_l": lambda _: bad}, 3)


def test_a_schedule_that_raises_is_named() -> None:
    def broken(t: int) -> float:
        raise KeyError(t)

    with pytest.raises(FedamdError, match=r"schedules.eta_s failed in round 5: KeyError"):
        at_round(FedAvg(), {"eta_s": broken}, 5)


def test_what_a_method_does_not_have_cannot_be_scheduled() -> None:
    with pytest.raises(FedamdError, match=r"schedules.eta: FedAvg has no such hyper-parameter"):
        check_scheduled(FedAvg(), {"eta": Constant()})
    with pytest.raises(FedamdError, match=r"schedules.large_batch: FedAMD has large_batch = 'full': only numbers"):
        check_scheduled(FedAMD(), {"large_batch": Constant()})
