"""How exactly an engine multiplies matrices: strict float32, TF32 on NVIDIA's tensor cores, or bfloat16 by autocast.

Parameters, their sums and what is sent stay in float32 in any case. PyTorch lets convolutions use TF32 unless told not
to; here nothing does that is not asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from fedamd.algorithms.base import Answers
from fedamd.engines.base import Engine, Request
from fedamd.errors import FedamdError
from fedamd.registry import choose

STRICT = "float32"
PRECISIONS = {
    STRICT: "every product in float32 (with dtype = float64: in float64)",
    "tf32": "products of float32 numbers rounded to 10 bits of mantissa, on a GPU",
    "bf16": "products of numbers rounded to bfloat16 (7 bits of mantissa), by autocast, through automatic "
    "differentiation",
}


def check_precision(precision: str, device: torch.device, dtype: torch.dtype) -> None:
    """Refuse what the device cannot do, or what would make nothing of the other settings."""
    choose(PRECISIONS, precision, "precision")
    if precision == "tf32" and device.type != "cuda":
        raise FedamdError(f'precision = "tf32" is for device = "cuda", not {device.type}; use "float32"')
    if precision != STRICT and dtype != torch.float32:
        raise FedamdError(
            f'precision = "{precision}" is for dtype = "float32", not {str(dtype)[6:]}; use precision = "float32"'
        )


@contextmanager
def precisely(precision: str, device: torch.device) -> Iterator[None]:
    """With products of this precision on this device, whatever PyTorch is set to outside."""
    if precision == STRICT and device.type != "cuda":
        yield
        return
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    products.allow_tf32 = convolutions.allow_tf32 = precision == "tf32"
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before


class PreciseEngine(Engine):
    """Another engine, with products of this precision."""

    def __init__(self, inner: Engine, precision: str, device: torch.device) -> None:
        self._inner = inner
        self._precision = precision
        self._device = device

    def execute(self, requests: Sequence[Request]) -> list[Answers]:
        with precisely(self._precision, self._device):
            return self._inner.execute(requests)

    def evaluate(self, xs: Sequence[Tensor]) -> list[tuple[float, float]]:
        with precisely(self._precision, self._device):
            return self._inner.evaluate(xs)

    def extras(self, t: int) -> Mapping[str, float]:
        return self._inner.extras(t)
