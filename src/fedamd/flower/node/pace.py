"""When a node looks for its next message: soon after it had one, then ever later.

Flower has no way to be told, so nodes ask. A question costs the SuperLink 3 to 5 ms of processor time, so all nodes of
a run together ask about 20 times a second, however many they are: each of 4 every 0.2 s, each of 60 and more every 3 s,
which is Flower's own pace, and the pace when no run is on.
"""

import random
import time
from collections.abc import Callable

TOGETHER = 20.0  # questions a second of all nodes of a run
IDLE = 3.0  # seconds between two questions when nothing happens
_SHORTEST, _GROWTH = 0.02, 1.3
_ACTIVE = 60.0  # seconds after a message in which another one is likely


class Pace:
    """The pauses of one node. `now` is the clock, `jitter` keeps nodes from asking in step."""

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = lambda: random.uniform(0.8, 1.2),
    ) -> None:
        self._now = now
        self._jitter = jitter
        self._longest = IDLE
        self._next = IDLE
        self._active_until = -float("inf")

    def one_of(self, nodes: int) -> None:
        """This node is one of so many that take part in a run."""
        self._longest = min(max(nodes / TOGETHER, 2 * _SHORTEST), IDLE)

    def had_a_message(self) -> None:
        self._next, self._active_until = _SHORTEST, self._now() + _ACTIVE

    def pause(self) -> float:
        """Seconds until the next question."""
        longest = self._longest if self._now() < self._active_until else IDLE
        pause, self._next = self._next, min(_GROWTH * self._next, longest)
        return min(pause, longest) * self._jitter()
