"""When a node looks for its next message: when one is due, then ever later.

Flower has no way to be told, so nodes ask. A question costs the SuperLink 3 to 5 ms of processor time. Rounds of a run
take about the same time, so a node does not ask before a good part of the usual time since its last answer is over,
then often for a while, then more and more rarely. All nodes of a run together ask at most 100 times a second while a
message is due, and 20 times a second while none is, up to 1,000 nodes and to 200: none means to wait longer than 10 s.
Where no run is on, a node asks every 3 s, as Flower's own does, or as rarely as a tenth of that if its last run was a
large one.

A SuperLink that is slow to answer is asked less: every node leaves it alone for a multiple of the time it took. Without
that, 200 nodes that have just joined are more than a busy machine answers: their questions time out, are asked again,
and nothing gets through any more.
"""

import random
import time
from collections import deque
from collections.abc import Callable

TOGETHER = 20.0  # questions a second of all nodes of a run
TOGETHER_WHEN_DUE = 100.0
SLOWEST = 10.0  # seconds between two questions in a run, at most
IDLE, SLOWEST_IDLE = 3.0, 30.0  # … when nothing happens, for a few nodes and for many
_SHORTEST = 0.02
_EARLY = 0.6  # share of the usual time before which no message is due
_FINE = 0.1  # share of the usual time between two questions when one is
_GROWTH = 0.25  # share of the silence beyond it
_ACTIVE = 60.0  # seconds after a message in which another one is likely
_RESPITE, _IDLE_RESPITE = 5.0, 50.0  # times what the SuperLink took to answer, in a run and in none
_LONGEST_RESPITE = 60.0


class Pace:
    """The pauses of one node. `now` is the clock, `jitter` keeps nodes from asking in step."""

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = lambda: random.uniform(0.8, 1.2),
    ) -> None:
        self._now = now
        self._jitter = jitter
        self._shortest = self._longest = self._idle = IDLE
        self._answered = -float("inf")
        self._gaps: deque[float] = deque(maxlen=3)  # from an answer to the next message
        self._took: deque[float] = deque(maxlen=2)  # by the SuperLink, for the last questions

    def one_of(self, nodes: int) -> None:
        """This node is one of so many that take part in a run; it begins."""
        self._shortest = min(max(nodes / TOGETHER_WHEN_DUE, _SHORTEST), SLOWEST)
        self._longest = min(max(nodes / TOGETHER, 2 * _SHORTEST), SLOWEST)
        self._idle = min(max(nodes / TOGETHER, IDLE), SLOWEST_IDLE)
        self._gaps.clear()

    def was_told(self, seconds: float) -> None:
        """The SuperLink took so long to answer a question."""
        self._took.append(seconds)

    def found_a_message(self) -> None:
        gap = self._now() - self._answered
        if gap < _ACTIVE:
            self._gaps.append(gap)

    def has_answered(self) -> None:
        self._answered = self._now()

    def pause(self) -> float:
        """Seconds until the next question."""
        silence = self._now() - self._answered
        took = min(self._took) if len(self._took) == self._took.maxlen else 0.0  # once slow is no sign
        if silence >= _ACTIVE:
            return max(self._idle, min(_IDLE_RESPITE * took, _LONGEST_RESPITE)) * self._jitter()
        return max(self._in_a_run(silence), min(_RESPITE * took, _LONGEST_RESPITE)) * self._jitter()

    def _in_a_run(self, silence: float) -> float:
        usual = min(self._gaps, default=0.0)  # the shortest: a client is not in every round
        if (early := _EARLY * usual - silence) > self._shortest:
            return min(early, self._idle)
        wanted = max(self._shortest, _FINE * usual, _GROWTH * (silence - 2 * usual))
        return min(wanted, self._longest)
