"""Anchored momentum: one family of momentum, drift correction and a cache of gradients with a price.

Client i keeps a cached gradient c_i, zero at first; the server keeps c, the mean of all M c_i, and a momentum m.

miner    y_0 = x_t; for k = 0 … K−1: y_{k+1} = y_k − η_l·(a·(∇f_i(y_k; B_k) + s·(c − c_i)) + (1 − a)·m);  Δ = x_t − y_K
ahead    what c and m add to these steps is the same for everyone, so the server adds it beforehand: all start from
         z = x_t − K·η_l·(a·s·c + (1 − a)·m), and step along a·(∇f_i(y_k; B_k) − s·c_i). The paths end where they did,
         but for gradients taken further ahead, as in Nesterov's method
anchor   (with probability p, instead)   c_i⁺ = ∇f_i(b samples) at the model it is sent
refresh  "miners": c_i⁺ = mean of ∇f_i(y_k; B_k), which costs a miner nothing;  "anchors": at the price of p and b, as
         in FedAMD;  "both"
server   c ← c + (1/M)·Σ (c_i⁺ − c_i);  x_{t+1} = x_t − η_s·Δ̄;  m ← Δ̄/(K·η_l), where Δ̄ is
         reduced   K·η_l·(a·(c + mean of (c_i⁺ − c_i)) + (1 − a)·m), the mean over miners and anchors: SAGA's estimate
         else      the mean of the miners' Δ

The members of the family that have names (exact tests; not ahead unless said): a = 1, s = 0 is FedAvg, reduced FedVARP;
s = 0 is FedCM, ahead FedACG without its proximal term; a = 1, s = 1 is SCAFFOLD, with refresh = "anchors" SCAFFOLD over
FedAMD's cache; s = 1 is SCAFFOLD-M.

What it costs: z down and, with "reduced", the change of c_i up, from which and from what it knows the server makes Δ: 2
vectors a client and round, as many as FedAvg, where SCAFFOLD moves 4 and SCAFFOLD-M 5. Not ahead, x_t and the vector
a·s·c + (1 − a)·m go down: 3. (With s = 1 the two Δ̄ are the same number: then "reduced" only saves bits.)

The recursive estimator of FedAMD's miners, damped by 1 − a, is STORM (Cutkosky & Orabona, NeurIPS 2019); here the
momentum is held fixed on a client, as in FedCM and Mime, which takes one gradient on a batch where STORM takes two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedamd.algorithms import checks
from fedamd.algorithms.base import (
    Answers,
    Batches,
    Dialogue,
    Exchange,
    Federation,
    Gradient,
    Order,
    Replies,
    Reply,
    Role,
    Size,
    State,
    Task,
    Turn,
    role,
)
from fedamd.algorithms.local import LocalSteps
from fedamd.algorithms.parameters import param
from fedamd.algorithms.space import DAMPING, Choice, Space
from fedamd.errors import FedamdError
from fedamd.oracles.base import Batch


@role("anchor", reports_loss=False, memory=("c",))
def aim(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """c_i anew: the large-batch gradient at the model sent."""
    (large,) = batches
    return _refreshed(task, grad(task.x, large))


@role("miner", memory=("c",))
def mine_and_refresh(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """Steps whose mean gradient is the new c_i. Its change is all the server needs for the reduced step."""
    _, mean = _walk(task, batches, grad)
    return _refreshed(task, mean)


@role("miner", memory=("c",))
def mine_and_tell(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """The same, and Δ beside it."""
    y, mean = _walk(task, batches, grad)
    return _refreshed(task, mean, delta=task.x - y)


@role("miner", memory=("c",))
def mine_from_cache(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """Steps that leave c_i to the anchors; what the reduction needs of it is taken off Δ."""
    y, _ = _walk(task, batches, grad)
    return Reply(delta=task.x - y - task.reduction * task.memory.c)


def _walk(task: Task, batches: Sequence[Batch], grad: Gradient) -> tuple[Tensor, Tensor]:
    """y_K, and the mean minibatch gradient along the path; a server that went ahead sends no pull."""
    y, total = task.x, torch.zeros_like(task.x)
    pull = getattr(task, "pull", 0.0) - task.a * task.s * task.memory.c
    for batch in batches:
        gradient = grad(y, batch)
        total = total + gradient
        y = y - task.eta_l * (task.a * gradient + pull)
    return y, total / len(batches)


def _refreshed(task: Task, c: Tensor, **values: Tensor) -> Reply:
    return Reply(change=c - task.memory.c, memory={"c": c}, **values)


@dataclass(frozen=True, kw_only=True)
class Anchored(LocalSteps):
    """Anchored momentum's hyper-parameters."""

    a: float = param(0.1, "a, the share of the client's own gradient; the rest is momentum")
    s: float = param(1.0, "s, the strength of the drift correction")
    refresh: Literal["miners", "anchors", "both"] = param("miners", "whose gradients renew the cache")
    p: float = param(0.1, "the probability of an anchor, where there are any")
    large_batch: Size = param("full", "b, the anchors' batch")
    reduced: bool = param(True, "whether the server's step is variance-reduced by the cache")
    ahead: bool = param(True, "whether clients start where c and m lead; else these are sent with the model")
    space: ClassVar[Space] = {**LocalSteps.space, "a": DAMPING, "s": Choice((0.0, 0.5, 1.0))}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(self, "a")
        checks.between(self, 0, 1, "a", "s")
        checks.one_of(self, "refresh", "miners", "anchors", "both")
        checks.batch_size(self, "large_batch")
        if not 0 < self.p < 1:
            raise FedamdError(f"p must lie strictly between 0 and 1, not {self.p}: without anchors refresh by miners")

    def start(self, x: Tensor, federation: Federation) -> Dialogue:  # noqa: ARG002  nobody is asked
        """x_0, an empty cache, and no momentum."""
        yield from ()
        return State(x=x, c=torch.zeros_like(x), m=torch.zeros_like(x))

    def round(self, state: State, turn: Turn) -> Dialogue:
        """Anchors and miners in one exchange; the cache, the step and the momentum from what they send."""
        replies = yield Exchange(*self._orders(state, turn))
        delta = self._step(state, replies)
        change = _changes(replies)
        c = state.c if change is None else state.c + change.sum(0) / turn.federation.clients
        if delta is None:
            return state.next(c=c)
        return state.next(c=c, m=delta / self._path, **self.descend(state, delta))

    @property
    def _path(self) -> float:
        """K·η_l, the length of a path in gradients."""
        return self.steps * self.eta_l

    def _orders(self, state: State, turn: Turn) -> list[Order]:
        pull = self._pull(state)
        x, steered = (state.x - self._path * pull, {}) if self.ahead else (state.x, {"pull": pull})
        numbers = {"eta_l": self.eta_l, "a": self.a, "s": self.s, "reduction": self._reduction}
        if self.refresh == "miners":
            return [self._mine.to(turn.cohort, self.local_batches, x=x, **steered, **numbers)]
        is_anchor = {i: turn.coin(self.p, i) for i in turn.cohort}
        anchors = [i for i in turn.cohort if is_anchor[i]]
        miners = [i for i in turn.cohort if not is_anchor[i]]
        return [
            aim.to(anchors, Batches(1, self.large_batch), x=x),
            self._mine.to(miners, self.local_batches, x=x, **steered, **numbers),
        ]

    def _pull(self, state: State) -> Tensor:
        """What all miners are steered by, alike."""
        pull: Tensor = self.a * self.s * state.c + (1 - self.a) * state.m
        return pull

    @property
    def _mine(self) -> Role:
        if self.refresh == "anchors":
            return mine_from_cache
        return mine_and_refresh if self.reduced else mine_and_tell

    @property
    def _reduction(self) -> float:
        """What is left for the server to reduce of c − c_i, in a Δ: the miners' own steps did the share s."""
        return self.a * (1 - self.s) * self._path if self.reduced else 0.0

    def _step(self, state: State, replies: Answers) -> Tensor | None:
        """Δ̄, or None where nothing came from which to make one."""
        if self.reduced and self.refresh != "anchors":
            change = _changes(replies)
            if change is None:
                return None
            estimate: Tensor = self.a * (state.c + change.mean(0)) + (1 - self.a) * state.m
            return self._path * estimate
        miners = replies["miner"]
        if not len(miners):
            return None
        delta: Tensor = miners.delta.mean(0) + self._reduction * state.c
        return delta + self._path * self._pull(state) if self.ahead else delta


def _changes(replies: Answers) -> Tensor | None:
    """How the c_i changed of all who renewed theirs, (n, d)."""
    renewed: list[Replies] = [each for each in replies.values() if "change" in each.values and len(each)]
    return torch.cat([each.change for each in renewed]) if renewed else None
