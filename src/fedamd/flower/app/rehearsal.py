"""What a valid reply of a role looks like, found by playing the role once with zeros.

So a reply is checked against the role itself, and no algorithm has to declare it twice.
"""

from fedamd.algorithms import rehearsal
from fedamd.algorithms.base import Order
from fedamd.engines.base import like_x
from fedamd.flower.app.wire import Form


def rehearse(order: Order) -> tuple[Form, dict[str, int]]:
    """The form of this order's replies, and the bits of those values that travel compressed."""
    reply, evaluates = rehearsal.rehearse(order, like_x(order))
    return Form({name: (value.shape, value.dtype) for name, value in reply.values.items()}, evaluates), reply.bits
