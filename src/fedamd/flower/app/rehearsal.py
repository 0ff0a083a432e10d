"""What a valid reply of a role looks like, found by playing the role once with zeros.

A role is a pure function, so the server can play it without data: names, shapes and types of what comes out are those
of every client's reply. So a reply is checked against the role itself, and no algorithm has to declare it twice.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from fedamd.algorithms.base import Gradient, Order, Task, Values
from fedamd.engines.base import like_x
from fedamd.flower.app.wire import Form
from fedamd.oracles.base import Batch


class _NoGradient(Gradient):
    """Zeros where a gradient is asked for."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, x: Tensor, batch: Batch) -> Tensor:  # noqa: ARG002
        self.asked = True
        return torch.zeros_like(x)

    def difference(self, x: Tensor, previous: Tensor, batch: Batch) -> Tensor:  # noqa: ARG002
        return self(x, batch)


def rehearse(order: Order) -> tuple[Form, dict[str, int]]:
    """The form of this order's replies, and the bits of those values that travel compressed."""
    x = like_x(order)
    grad = _NoGradient()
    nothing = Batch(torch.zeros(0, dtype=torch.int64), x.new_zeros(0))
    reply = order.role.run(_task(order, x), [nothing] * sum(asked.count for asked in order.batches), grad)
    return Form({name: (value.shape, value.dtype) for name, value in reply.values.items()}, grad.asked), reply.bits


def _task(order: Order, x: Tensor) -> Task:
    uniforms: Callable[[int], Tensor] = lambda count: x.new_zeros(count)  # noqa: E731
    held = Values(**{name: torch.zeros_like(x) for name in order.role.holds})
    return Task(**order.payload, held=held, fresh=x.new_ones(1), uniforms=uniforms)
