"""Triton is made ready once for each GPU, beside other work; what cannot be is left for later."""

import pytest
import torch

from fedamd import triton_here


def test_there_is_nothing_to_begin_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_here, "_begun", pytest.fail)
    assert triton_here.begin(torch.device("cpu")).result() is None


def test_it_begins_once_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[torch.device] = []
    monkeypatch.setattr(triton_here, "_first_kernel", started.append)
    triton_here._begun.cache_clear()
    try:
        for _ in range(2):
            triton_here.begin(torch.device("cuda", 3)).result()
    finally:
        triton_here._begun.cache_clear()
    assert started == [torch.device("cuda", 3)]


def test_what_goes_wrong_waits_in_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(device: torch.device) -> None:
        raise RuntimeError(f"no compiler for {device}")

    monkeypatch.setattr(triton_here, "_first_kernel", fails)
    triton_here._begun.cache_clear()
    try:
        assert str(triton_here.begin(torch.device("cuda", 3)).exception()) == "no compiler for cuda:3"
    finally:
        triton_here._begun.cache_clear()
