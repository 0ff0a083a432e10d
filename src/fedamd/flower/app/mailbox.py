"""Messages out, replies in: Flower's Grid, made safe against whatever a node may send."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence

import httpx
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedamd.flower.app import letterbox

log = logging.getLogger("fedamd.flower")
_TOGETHER = 16  # messages announced before the first of their objects follow: their nodes wait, and ask for them
_SHORTEST, _GROWTH, _LONGEST = 0.01, 1.4, 0.5  # seconds between two looks into the letter box


class Mailbox:
    """Sends to nodes and fetches what they answered. `now` and `sleep` are the clock (tests have their own)."""

    def __init__(
        self, grid: Grid, now: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.grid = grid
        self.now = now
        self.sleep = sleep
        self.read_whole: set[int] = set()  # nodes that can read a message sent whole
        self._quick = letterbox.Letterbox(grid) if letterbox.usable(grid) else None

    def send(self, letters: Sequence[tuple[int, RecordDict]], kind: str, ttl: float, group: str = "") -> list[str]:
        """One message to each node; their ids, "" where one could not be sent. `group` is for the nodes' logs."""
        messages = [
            Message(content, dst_node_id=node, message_type=kind, ttl=ttl, group_id=group) for node, content in letters
        ]
        whole = [self._goes_whole(message) for message in messages]
        ids = iter(self._push([one for one, is_whole in zip(messages, whole, strict=True) if not is_whole]))
        quick_ids = iter(self._push_whole([one for one, is_whole in zip(messages, whole, strict=True) if is_whole]))
        return [next(quick_ids if is_whole else ids, "") for is_whole in whole]

    def _goes_whole(self, message: Message) -> bool:
        return (
            self._quick is not None
            and message.metadata.dst_node_id in self.read_whole
            and not message.content.array_records
        )

    def _push(self, messages: list[Message]) -> list[str]:
        groups = [messages[first : first + _TOGETHER] for first in range(0, len(messages), _TOGETHER)]
        return [number for group in groups for number in self._push_group(group)]

    def _push_group(self, messages: list[Message]) -> list[str]:
        ids = [str(number or "") for number in self.grid.push_messages(messages)]
        return ids or [""] * len(messages)  # Flower has none for messages that are too large

    def _push_whole(self, messages: list[Message]) -> list[str]:
        return self._quick.send(messages) if self._quick else []

    def fetch(self, ids: Iterable[str]) -> dict[str, Message | None]:
        """The replies that have come, by the id of what they answer; None for one that cannot be read."""
        if self._quick is not None:
            return self._quick.fetch(ids)
        found: dict[str, Message | None] = {}
        for number in ids:  # one by one: a reply that breaks the reader must not take others with it
            try:
                replies = list(self.grid.pull_messages([number]))
            except httpx.HTTPError:  # the SuperLink cannot be reached: no client's doing
                raise
            except Exception as error:
                log.warning("a reply could not be decoded: %s: %s", type(error).__name__, error)
                found[number] = None
                continue
            if replies:
                found[number] = replies[0]
        return found

    def wait(self, seconds: float, look: Callable[[], bool]) -> bool:
        """Look again and again, at growing intervals, until `look` says it is done or the time is over."""
        end, pause = self.now() + seconds, _SHORTEST
        while not look():
            left = end - self.now()
            if left <= 0:
                return False
            self.sleep(min(pause, left))
            pause = min(_GROWTH * pause, _LONGEST)
        return True
