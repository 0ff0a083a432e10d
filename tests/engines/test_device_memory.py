"""A full device: room is made once, and then it is said in words."""

import pytest
import torch

from fedamd.engines.device_memory import is_full, with_room
from fedamd.errors import FedamdError


class Device:
    """Has room from the attempt on that is asked for."""

    def __init__(self, attempts: int, error: Exception) -> None:
        self.attempts, self.error, self.room_made = attempts, error, 0

    def compute(self) -> str:
        self.attempts -= 1
        if self.attempts > 0:
            raise self.error
        return "done"

    def make_room(self) -> None:
        self.room_made += 1


def test_room_is_made_where_it_is_missing() -> None:
    device = Device(2, torch.OutOfMemoryError("full"))
    assert with_room(device.compute, device.make_room, 1) == "done"
    assert device.room_made == 1


@pytest.mark.parametrize(("runs", "advice"), [(1, "sent \\("), (18, "18 runs share it: take fewer at a time")])
def test_twice_full_is_said_in_words(runs: int, advice: str) -> None:
    device = Device(3, RuntimeError("CUDA error: out of memory"))
    with pytest.raises(FedamdError, match=advice):
        with_room(device.compute, device.make_room, runs)


def test_other_errors_are_left_alone() -> None:
    device = Device(2, RuntimeError("shapes do not match"))
    assert not is_full(device.error)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        with_room(device.compute, device.make_room, 1)
    assert device.room_made == 0
