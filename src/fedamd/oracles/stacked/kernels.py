"""Where the Triton kernels can run."""

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

OLDEST_TRITON = (3, 4)  # earlier ones cannot carry tuples through loops


def has_kernels(values: Tensor) -> bool:
    """Whether the Triton kernels can work on such values here."""
    return values.is_cuda and values.dtype == torch.float32 and _has_triton()


@cache
def _has_triton() -> bool:
    if find_spec("triton") is None:
        return False
    import triton

    major, minor = triton.__version__.split(".")[:2]
    return (int(major), int(minor)) >= OLDEST_TRITON
