"""What a run costs: gradient samples and bits, counted from the exchanges themselves as the paper counts them.

Gradients: every sample of every batch, times the gradients its role takes per sample (a miner takes two on each, also
at k = 0 where the two cancel and are not computed). Bits: every model-sized vector sent to a client or back, in the
bits of its type; single numbers ride along uncounted. What was sent to a client that never replied was sent all
the same; its gradients and its reply are not counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor

from fedamd.algorithms.base import Answers, Exchange, Order, Replies
from fedamd.engines.base import like_x


@dataclass
class Ledger:
    """Totals so far."""

    gradient_samples: int = 0
    bits_up: int = 0
    bits_down: int = 0
    simulated_seconds: float | None = None  # where the clients have devices

    def add(
        self,
        exchange: Exchange,
        answers: Answers,
        sizes: Sequence[int],
        vector_bits: Callable[[Tensor], int] | None = None,
    ) -> None:
        """Count one exchange with its replies; `sizes[m]` is what client m owns, `vector_bits` what a vector costs on
        its way to a client (default: the bits of its type)."""
        for order in exchange.orders:
            replies = answers[order.role.name]
            x = like_x(order)
            self.bits_down += len(order.clients) * bits_down(order, vector_bits)
            self.bits_up += _bits_up(replies, x)
            self.gradient_samples += _gradient_samples(order, replies, sizes)

    def add_seconds(self, simulated: float) -> None:
        """How long the exchange took on the clients' devices."""
        self.simulated_seconds = (self.simulated_seconds or 0.0) + simulated

    def totals(self) -> dict[str, Any]:
        """All that is counted, by name."""
        totals = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: total for name, total in totals.items() if total is not None}


def bits_down(order: Order, vector_bits: Callable[[Tensor], int] | None = None) -> int:
    """What each client of the order is sent."""
    x = like_x(order)
    vectors = [value for value in order.payload.values() if isinstance(value, Tensor) and value.numel() == x.numel()]
    return sum(map(vector_bits or bits_of, vectors))


def bits_of(vector: Tensor) -> int:
    """In the bits of its type."""
    return vector.numel() * vector.element_size() * 8


def _bits_up(replies: Replies, x: Tensor) -> int:
    came = len(replies) + len(replies.rejected)
    vectors = [name for name, stack in replies.values.items() if stack.shape[-1] == x.numel()]
    return came * sum(replies.bits.get(name, bits_of(x)) for name in vectors)


def _gradient_samples(order: Order, replies: Replies, sizes: Sequence[int]) -> int:
    samples = sum(batches.samples(sizes[i]) for i in (*replies.clients, *replies.rejected) for batches in order.batches)
    return order.role.gradients * samples
