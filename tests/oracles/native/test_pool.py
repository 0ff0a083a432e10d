"""The native oracle's threads: whose calls they serve, and where they run."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn

from fedamd.data.base import Dataset
from fedamd.oracles.base import Batch
from fedamd.oracles.native.oracle import NativeOracle

pytestmark = pytest.mark.usefixtures("library")


def small() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 5))


def images() -> Dataset:
    """60 of 2 × 8 × 8 in five classes."""
    inputs, labels = torch.randn(60, 2, 8, 8), torch.arange(60) % 5
    return Dataset("random", inputs, labels, inputs, labels, 5)


def uniform(rows: int, length: int) -> Batch:
    return Batch(torch.randint(0, 60, (rows, length)), torch.full((rows, length), 1 / length))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_calls_at_the_same_time_do_not_meet(threads: int) -> None:
    """Many callers share one oracle's threads, and each is given what it would be given alone."""
    torch.manual_seed(0)
    oracle = NativeOracle(small(), images(), threads)
    cases = [(torch.randn(rows, oracle.dimension), uniform(rows, 40)) for rows in (1, 2, 3, 4, 5) * 4]
    eta = torch.tensor(0.1)

    def call(case: tuple[Tensor, Batch]) -> list[Tensor]:
        x, batch = case
        descent, losses = oracle.descend(x, eta, [batch, batch, batch])
        return [descent, *losses, *oracle.gradient(x, batch), *oracle.evaluate(x)]

    alone = [call(case) for case in cases]
    with ThreadPoolExecutor(8) as callers:
        together = list(callers.map(call, cases))
    for one, other in zip(alone, together, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads are told where to run on Linux only")
def test_threads_for_all_cpus_have_one_each_and_others_may_go_where_they_like() -> None:
    """With a thread for every CPU no two share one; one thread more, and all stay where the process may be."""
    cpus = os.sched_getaffinity(0)
    for count, places in ((len(cpus), {frozenset({cpu}) for cpu in cpus}), (len(cpus) + 1, {frozenset(cpus)})):
        before = set(threads())
        oracle = NativeOracle(small(), images(), count)
        oracle.gradient(torch.randn(count, oracle.dimension), uniform(count, 40))
        started = set(threads()) - before
        if count > 1:  # one alone is the caller
            assert len(started) == count
            assert any(where(started) == places for _ in patiently())


def threads() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/task")]


def where(threads: set[int]) -> set[frozenset[int]]:
    return {frozenset(os.sched_getaffinity(thread)) for thread in threads}


def patiently() -> Iterator[None]:
    """A thread may be late: others have done its work."""
    for _ in range(1000):
        yield
        time.sleep(0.01)
