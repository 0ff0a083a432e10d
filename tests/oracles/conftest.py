"""Where the tests of the Triton kernels run: on a GPU, or in Triton's interpreter on the CPU."""

import importlib
import os
from collections.abc import Callable
from types import ModuleType

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # Triton looks when it is first imported, which is later than this


@pytest.fixture
def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def kernels() -> Callable[[str], ModuleType]:
    """Imports a module of kernels by its name."""
    pytest.importorskip("triton", reason="Triton is not installed")
    return lambda name: importlib.import_module(f"fedamd.oracles.stacked.{name}")
