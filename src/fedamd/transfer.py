"""Numbers from the host on a device, without waiting for what the device is doing."""

from collections.abc import Sequence

import torch
from torch import Tensor


def upload(values: Sequence[int] | Sequence[float], device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """`torch.tensor(values, device=device)`, which would first wait for all that is queued there."""
    return torch.tensor(values, dtype=dtype).to(device, non_blocking=True)
