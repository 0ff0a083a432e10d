"""Where the Triton kernels can run."""

import torch
from torch import Tensor

from fedamd.triton_here import has_triton


def has_kernels(values: Tensor) -> bool:
    """Whether the Triton kernels can work on such values here."""
    return values.is_cuda and values.dtype == torch.float32 and has_triton()
