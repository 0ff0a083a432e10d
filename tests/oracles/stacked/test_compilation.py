"""Kernels are compiled beforehand by calls that must fit them."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from fedamd.oracles.stacked import compilation


def test_every_call_fits(kernels: Callable[[str], ModuleType], device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels("triton_columns")
    monkeypatch.setattr(compilation, "THREADS", 1)  # Triton's interpreter is for one thread
    assert compilation.compile_graph_kernels(torch.ones(3, 1, 2, 2, device=device)) == []
