"""One run in progress: its state, its costs and its records; and what a round of it reports."""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fedamd import draw
from fedamd.algorithms.base import Answers, Exchange, Order, State
from fedamd.draw import Purpose
from fedamd.engines.base import Site
from fedamd.engines.client_store import ClientStore, MemoryStore
from fedamd.runs.evaluation import Spread, finite
from fedamd.runs.experiment import Experiment
from fedamd.runs.ledger import Ledger
from fedamd.runs.records import Record


@dataclass
class Tally:
    """What happened in one round: who replied, who did not, and how large the losses were."""

    replied: Counter[str] = field(default_factory=Counter)
    missing: int = 0
    rejected: int = 0
    all_bad: dict[str, bool] = field(default_factory=dict)  # role that got replies → whether it had to drop every one
    losses: list[Tensor] = field(default_factory=list)

    def add(self, exchange: Exchange, answers: Answers) -> None:
        for order in exchange.orders:
            replies = answers[order.role.name]
            self.replied[order.role.name] += len(replies)
            self.rejected += len(replies.rejected)
            self.missing += len(order.clients) - len(replies) - len(replies.rejected)
            if len(replies) or replies.rejected:
                self.all_bad[order.role.name] = not len(replies)
            if order.role.reports_loss and replies.losses is not None:
                self.losses.append(replies.losses)

    def loss(self, like: Tensor) -> Tensor:
        """The mean over the clients that report one; NaN where none did."""
        return torch.cat(self.losses).mean() if self.losses else like.new_full((), math.nan)


class Run:
    """A run between two rounds. `t` rounds are done; `status` is running, finished, diverged or stopped."""

    def __init__(self, experiment: Experiment, store: ClientStore | None = None) -> None:
        config = experiment.config
        self.experiment = experiment
        self.config = config
        self.site = Site(config.seed, experiment.clients, store or MemoryStore(config.client_store == "host"))
        self.state = State(x=experiment.x0.clone())
        self.started = False
        self.t = 0
        self.status = "running"
        self.stop_reason: str | None = None  # why a callback ended the run early
        self.ledger = Ledger()
        self.start_up = Ledger()
        self.tally = Tally()
        self.all_bad_rounds: Counter[str] = Counter()  # role → how often in a row it had to drop every reply it got
        self.clock = time.perf_counter()
        self.records: list[Record] = []

    @property
    def live(self) -> bool:
        return self.status == "running" and self.t < self.config.rounds

    def count_bad_rounds(self) -> None:
        """After a round: a role that nobody played in it is as it was."""
        for role, bad in self.tally.all_bad.items():
            self.all_bad_rounds[role] = self.all_bad_rounds[role] + 1 if bad else 0

    @property
    def checkpoint_due(self) -> bool:
        """After the round just done."""
        return self.t % self.config.checkpoint_every == 0 or not self.live

    def stop(self, reason: str) -> None:
        """End the run after the round just done; what is asked for at the last round anyway changes nothing."""
        if self.live:
            self.status, self.stop_reason = "stopped", reason

    def surviving(self, order: Order, t: int) -> Order:
        """The order for those of its clients that will reply: the others are away, fail, or miss the deadline."""
        seed, rate, time = self.config.seed, self.config.failure_rate, self.experiment.simulated_time
        sampler = self.experiment.federation.sampler
        there = [i for i in order.clients if sampler.reachable(t, seed, i)]
        lives = [i for i in there if not rate or draw.uniform(seed, Purpose.FAILURE, t, i) >= rate]
        order = Order(order.role, tuple(lives), order.batches, order.payload)
        return order if time is None else Order(order.role, tuple(time.in_time(order)), order.batches, order.payload)

    def begin_round(self) -> None:
        self.tally = Tally()
        self.clock = time.perf_counter()

    def measure(self, t: int, evaluation: tuple[float, float] | None) -> "Measured":
        """What is known of the model after round t, beside what the engine's `evaluation` says of it."""
        test_loss, accuracy = evaluation or (math.nan, math.nan)
        metrics = {"test_loss": test_loss, "accuracy": accuracy}
        every, measures = self.config.evaluate_clients_every, self.experiment.evaluation
        clients_due = every is not None and (t < 0 or self.t % every == 0 or self.t == self.config.rounds)
        x = self.experiment.algorithm.evaluated(self.state)
        if evaluation is not None:
            metrics |= measures.on_test_set(x)
        return Measured(finite(metrics), measures.on_clients(x) if clients_due else {})

    def record(
        self,
        t: int,
        loss: float,
        measured: "Measured",
        ledger: Ledger,
        extras: Mapping[str, float],
        seconds: float,
    ) -> Record:
        """The line of round t in the metrics; `extras` are what the engine has counted."""
        others = dict(extras)
        return Record(
            round=t,
            loss=_number(loss),
            metrics=measured.metrics,
            clients=measured.clients,
            roles=dict(self.tally.replied),
            missing=self.tally.missing,
            rejected=self.tally.rejected + int(others.pop("rejected", 0)),  # some engines drop replies on their way
            costs=ledger.totals(),
            extras=others,
            seconds=round(seconds, 6),
        )

    # --- checkpoints ---

    def tensors(self) -> dict[str, Tensor]:
        """The state and what the clients hold, by name."""
        state = {f"state.{name}": value for name, value in self.state.items()}
        return state | {f"held.{name}": value for name, value in self.site.store.tensors().items()}

    def facts(self) -> dict[str, Any]:
        """Everything else a checkpoint holds."""
        return {
            "t": self.t,
            "status": self.status,
            "ledger": self.ledger.totals(),
            "start_up": self.start_up.totals(),
            "all_bad_rounds": dict(self.all_bad_rounds),
        }

    def restore(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Back to a checkpoint; a store of held vectors that cannot go there refuses before anything has changed."""
        ledger, start_up = Ledger(**facts["ledger"]), Ledger(**facts["start_up"])
        self.all_bad_rounds = Counter(facts.get("all_bad_rounds", {}))
        device = self.experiment.x0.device
        state, held = (
            {name.removeprefix(part): value.to(device) for name, value in tensors.items() if name.startswith(part)}
            for part in ("state.", "held.")
        )
        self.site.store.rewind(facts["t"])
        self.site.store.restore(held)
        self.state = State(**state)
        self.t, self.status, self.started = facts["t"], facts["status"], True
        self.ledger, self.start_up = ledger, start_up


@dataclass(frozen=True)
class Measured:
    """What an evaluation found: metrics on the test set, and how they are spread over clients."""

    metrics: dict[str, float | None]
    clients: dict[str, Spread]


Listener = Callable[[Run, Record], None]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
