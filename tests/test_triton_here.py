"""Triton is made ready once for each GPU, beside other work; what cannot be is left for later."""

from collections.abc import Iterator

import pytest
import torch

from fedamd import triton_here


@pytest.fixture
def first_kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[torch.device, bool]]]:
    """Calls of it, which fail on the GPU of number 7."""
    called: list[tuple[torch.device, bool]] = []

    def call(device: torch.device, compile_only: bool = False) -> None:
        called.append((device, compile_only))
        if device.index == 7:
            raise RuntimeError(f"no compiler for {device}")

    monkeypatch.setattr(triton_here, "_first_kernel", call)
    triton_here._begun.cache_clear()
    yield called
    triton_here._begun.cache_clear()


def test_there_is_nothing_to_begin_on_a_cpu(first_kernel: list[tuple[torch.device, bool]]) -> None:
    begun = triton_here.begin(torch.device("cpu"))
    assert begun.compiler.result() is begun.kernel.result() is None
    assert first_kernel == []


def test_it_begins_once_for_a_gpu(first_kernel: list[tuple[torch.device, bool]]) -> None:
    device = torch.device("cuda", 3)
    for _ in range(2):
        triton_here.begin(device).kernel.result()
    assert first_kernel == [(device, True), (device, False)]


def test_what_goes_wrong_waits_where_it_is_asked_for(first_kernel: list[tuple[torch.device, bool]]) -> None:
    for future in triton_here.begin(torch.device("cuda", 7)):
        assert str(future.exception()) == "no compiler for cuda:7"
    assert len(first_kernel) == 2
