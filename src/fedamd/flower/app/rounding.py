"""Vectors in half the bits on the wire: `federation.wire_dtype = "bfloat16"` or "float16".

What is as long as the model is rounded before it is sent, either way, and computed with in the run's own type where it
arrives; numbers, short vectors and what a compressor has made shorter are not touched. Not for roles that hold
something: a client would keep what it computed, and the server add up what was sent.
"""

from collections.abc import Collection, Mapping
from typing import TypeVar

import torch
from torch import Tensor

from fedamd.algorithms.base import Order
from fedamd.engines.base import like_x
from fedamd.errors import FedamdError
from fedamd.flower.app.wire import Form

HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
Value = TypeVar("Value", bound=Tensor | float)


class Rounding:
    """`Rounding("")` leaves everything as it is."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._half = HALVES.get(name)

    def narrow(self, values: Mapping[str, Value], length: int, compressed: Collection[str] = ()) -> dict[str, Value]:
        """What is sent: vectors of this length rounded, but for those that are compressed."""
        return {k: value if k in compressed else self._narrow(value, length) for k, value in values.items()}

    def widen(self, values: Mapping[str, Value], dtype: torch.dtype) -> dict[str, Value]:
        """What has come, in the type that is computed with."""
        if self._half is None:
            return dict(values)
        return {name: self._widen(value, dtype) for name, value in values.items()}

    def form(self, form: Form, length: int) -> Form:
        """What a valid reply looks like on the wire."""
        if self._half is None:
            return form
        rounded = self.bits(form, length)
        values = {k: (shape, self._half if k in rounded else kind) for k, (shape, kind) in form.values.items()}
        return Form(values, form.has_loss, form.compressed)

    def bits(self, form: Form, length: int) -> dict[str, int]:
        """Of the values that are rounded, for the ledger."""
        if self._half is None:
            return {}
        lengths = {name: shape.numel() for name, (shape, _) in form.values.items() if name not in form.compressed}
        return {name: 16 * length for name, numbers in lengths.items() if numbers == length}

    def check(self, order: Order) -> None:
        if self._half is not None and order.role.memory:
            raise FedamdError(
                f"federation.wire_dtype = {self.name} rounds what is sent, but as {order.role.name} clients hold "
                f"{', '.join(order.role.memory)} between rounds: server and clients would drift apart. Leave it out, "
                'or let the server hold it (for fedamd: algorithm.cache = "server")'
            )

    def vector_bits(self, vector: Tensor) -> int:
        return vector.numel() * (16 if self._half is not None else 8 * vector.element_size())

    def _narrow(self, value: Value, length: int) -> Value:
        if self._half is not None and isinstance(value, Tensor) and value.numel() == length:
            return value.to(self._half)  # type: ignore[return-value]
        return value

    def _widen(self, value: Value, dtype: torch.dtype) -> Value:
        if isinstance(value, Tensor) and value.dtype == self._half:
            return value.to(dtype)  # type: ignore[return-value]
        return value


def length_of(order: Order) -> int:
    return like_x(order).numel()
