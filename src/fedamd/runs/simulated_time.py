"""Simulated seconds: how long every exchange would take on the clients' devices, and who would miss the deadline."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedamd.algorithms.base import Exchange, Order
from fedamd.algorithms.rehearsal import rehearse
from fedamd.engines.base import like_x
from fedamd.participation import Devices
from fedamd.runs.ledger import bits_down, bits_of


@dataclass(frozen=True)
class SimulatedTime:
    """The devices of a run's clients; `sizes[m]` is what client m owns."""

    devices: Devices
    sizes: Sequence[int]
    deadline: float | None = None

    def seconds(self, order: Order) -> list[float]:
        """How long each client of the order takes: what it is sent, its gradients, its reply."""
        if not order.clients:
            return []
        down, up = bits_down(order), _bits_up(order)
        return [self.devices[client].seconds(self._samples(order, client), down, up) for client in order.clients]

    def in_time(self, order: Order) -> list[int]:
        """The clients whose replies come before the deadline."""
        taken = zip(order.clients, self.seconds(order), strict=True)
        return [client for client, seconds in taken if self.deadline is None or seconds <= self.deadline]

    def length(self, exchange: Exchange) -> float:
        """The exchange is over when its slowest client has replied, or at the deadline."""
        slowest = max((seconds for order in exchange.orders for seconds in self.seconds(order)), default=0.0)
        return slowest if self.deadline is None else min(slowest, self.deadline)

    def _samples(self, order: Order, client: int) -> int:
        return order.role.gradients * sum(batches.samples(self.sizes[client]) for batches in order.batches)


def _bits_up(order: Order) -> int:
    x = like_x(order)
    reply, _ = rehearse(order, x)
    vectors = [name for name, value in reply.values.items() if value.shape[-1] == x.numel()]
    return sum(reply.bits.get(name, bits_of(x)) for name in vectors)
