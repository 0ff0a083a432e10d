"""A federation in one process with clients that misbehave on request, and a simulation to hold it against."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from flwr.app import Message

from fedamd.algorithms.base import Answers, Exchange, Order
from fedamd.engines import make_engine
from fedamd.engines.base import Engine, Request
from fedamd.flower.app.mailbox import Mailbox
from fedamd.flower.app.server import lead
from fedamd.flower.app.settings import flatten
from fedamd.flower.local.inprocess import InProcessGrid, participants
from fedamd.runs.config import load_config
from fedamd.runs.experiment import build_experiment
from fedamd.runs.folder import Folder
from fedamd.runs.rounds import drive
from fedamd.runs.run import Run

Answer = Callable[[], Message | None]
Fault = Callable[[Message, Answer], Message | None]  # what comes back instead of what the client would answer

RAW: dict[str, Any] = {
    "clients": 4,
    "cohort": 3,
    "rounds": 4,
    "model": {"name": "softmax"},
    "partition": {"name": "classes", "classes_per_client": 3},
}
FEDAMD = {"name": "fedamd", "p": 0.5, "steps": 2, "small_batch": 16}


def config(algorithm: Mapping[str, Any] = FEDAMD, **changes: Any) -> dict[str, Any]:
    """The sections of a small run."""
    return RAW | {"algorithm": dict(algorithm)} | changes


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class FaultyGrid(InProcessGrid):
    """Faults by (round, client), each for the first instruction of that round."""

    def __init__(self, nodes: Mapping[int, Mapping[str, Any]], run_config: Mapping[str, Any]) -> None:
        super().__init__(nodes, run_config)
        self.faults: dict[tuple[int, int], Fault] = {}
        self.instructions: list[Message] = []
        self.answers: list[Message] = []

    def answer(self, message: Message) -> Message | None:
        if message.metadata.message_type != "train":
            return super().answer(message)
        self.instructions.append(message)
        header = message.content["header"]
        fault = self.faults.pop((header["t"], header["client"]), None)
        reply = fault(message, lambda: super(FaultyGrid, self).answer(message)) if fault else super().answer(message)
        if reply is not None:
            self.answers.append(reply)
        return reply

    def deliver(self, message: Message, reply: Message | None) -> None:
        """A reply that comes by itself, later."""
        if reply is not None:
            self._replies[message.metadata.message_id] = reply


class Federation:
    """A federation whose server can be started, stopped and started again."""

    def __init__(self, folder: Path, raw: Mapping[str, Any], clients: Sequence[int] | None = None, **settings: Any):
        own = {"folder": str(folder / "run"), "deadline": 100, "retry_after": 5, "start_wait": 10} | settings
        self.raw = dict(raw)
        self.settings = flatten(self.raw | {"federation": own})
        self.folder = folder / "run"
        self.state = folder / "state"
        members = range(self.raw["clients"]) if clients is None else clients
        self.grid = FaultyGrid(self.nodes(members), self.settings)
        self.clock = Clock()

    def nodes(self, clients: Sequence[int]) -> dict[int, dict[str, Any]]:
        return participants(clients, lambda _: str(self.state))

    def lead(self) -> Run:
        return lead(Mailbox(self.grid, self.clock.now, self.clock.sleep), self.settings)

    def metrics(self) -> dict[int, dict[str, Any]]:
        return {record.round: record for record in Folder.open(self.folder).metrics()}


class _Dropping(Engine):
    """The loop engine, with clients that never answer in some rounds."""

    def __init__(self, inner: Any, drop: set[tuple[int, int]]) -> None:
        self._inner = inner
        self._drop = drop

    def execute(self, requests: Sequence[Request]) -> list[Answers]:
        return self._inner.execute([self._without(request) for request in requests])

    def evaluate(self, xs: Sequence[torch.Tensor]) -> list[tuple[float, float]]:
        return self._inner.evaluate(xs)

    def _without(self, request: Request) -> Request:
        orders = [
            Order(o.role, tuple(i for i in o.clients if (request.t, i) not in self._drop), o.batches, o.payload)
            for o in request.exchange.orders
        ]
        return Request(request.site, request.t, request.stage, Exchange(*orders))


def simulate(raw: Mapping[str, Any], drop: set[tuple[int, int]] = frozenset()) -> Run:
    """The same run without Flower; the clients of `drop` = {(round, client), …} do not reply."""
    settled = load_config(dict(raw))
    experiment = build_experiment(settled)
    run = Run(experiment)
    drive(
        [run], _Dropping(make_engine("loop", "auto", experiment.model, experiment.dataset), set(drop)), lambda *_: None
    )
    return run


def same(run: Run, other: Run) -> bool:
    """Whether two runs have come to the same state: x and whatever else the server remembers."""
    mine, theirs = dict(run.state.items()), dict(other.state.items())
    return mine.keys() == theirs.keys() and all(
        torch.allclose(value, theirs[name], rtol=0, atol=1e-6) for name, value in mine.items()
    )
