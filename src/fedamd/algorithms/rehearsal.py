"""A role played once with zeros: what its replies look like, known without data.

A role is a pure function, so names, shapes, types and bits of what comes out are those of every client's reply.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from fedamd.algorithms.base import Gradient, Order, Reply, Task, Values
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


def rehearse(order: Order, x: Tensor) -> tuple[Reply, bool]:
    """A reply to this order, and whether the role evaluates the loss; `x` is a vector of the order's."""
    grad = _NoGradient()
    nothing = Batch(torch.zeros(0, dtype=torch.int64), x.new_zeros(0))
    reply = order.role.run(_task(order, x), [nothing] * sum(asked.count for asked in order.batches), grad)
    return reply, grad.asked


def _task(order: Order, x: Tensor) -> Task:
    uniforms: Callable[[int], Tensor] = lambda count: x.new_zeros(count)  # noqa: E731
    memory = Values(**{name: torch.zeros_like(x) for name in order.role.memory})
    return Task(**order.payload, memory=memory, fresh=x.new_ones(1), uniforms=uniforms)
