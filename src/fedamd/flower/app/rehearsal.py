"""What a valid reply of a role looks like, found by playing the role once with zeros.

So a reply is checked against the role itself, and no algorithm has to declare it twice.
"""

from collections.abc import Hashable, Mapping

from torch import Tensor

from fedamd.algorithms import rehearsal
from fedamd.algorithms.base import Order
from fedamd.engines.base import like_x
from fedamd.flower.app.wire import Form
from fedamd.runs.ledger import bits_of

_MOST = 64  # kinds that are remembered: a step size may be another one in every round


def rehearse(order: Order) -> tuple[Form, dict[str, int]]:
    """The form of this order's replies, and the bits of those values that travel compressed."""
    reply, evaluates = rehearsal.rehearse(order, like_x(order))
    bits = shortened(reply.bits, reply.values)
    form = Form({name: (value.shape, value.dtype) for name, value in reply.values.items()}, evaluates, bits.keys())
    return form, bits


def shortened(bits: Mapping[str, int], values: Mapping[str, Tensor]) -> dict[str, int]:
    """Of what came out of compressors, those values that take fewer bits than their type has."""
    return {name: several for name, several in bits.items() if several < bits_of(values[name])}


class Rehearsals:
    """Of every kind of order once: with a large model it takes a while, and the orders of all rounds are alike."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Form, dict[str, int]]] = {}

    def of(self, order: Order) -> tuple[Form, dict[str, int]]:
        kind = _kind(order)
        if kind not in self._known:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[kind] = rehearse(order)
        return self._known[kind]


def _kind(order: Order) -> Hashable:
    """All that the form of a reply can depend on: everything but the numbers in vectors."""
    payload = [
        (name, value.shape, value.dtype, value.device) if isinstance(value, Tensor) else (name, value)
        for name, value in order.payload.items()
    ]
    return order.role.run, order.batches, tuple(payload)
