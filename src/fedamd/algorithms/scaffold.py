"""SCAFFOLD: local steps corrected by control variates.

Sai Praneeth Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated learning", ICML 2020,
Algorithm 1.

Client i keeps a control variate c_i; the server keeps c, always the mean of all M c_i.

client   y_0 = x_t; for k = 0 … K−1: y_{k+1} = y_k − η_l·(∇f_i(y_k; B_k) − c_i + c);  Δ = x_t − y_K
         option I    c_i⁺ = ∇f_i(x_t; b samples), an extra pass over its data
         option II   c_i⁺ = c_i − c + Δ/(K·η_l), which is the mean minibatch gradient along the path
         sends Δ and c_i⁺ − c_i
server   x_{t+1} = x_t − η_s·mean of the Δ;  c ← c + (1/M)·Σ (c_i⁺ − c_i) over the clients that replied

The variates start at zero, or (Wu et al., 2023, and the default here) at the full local gradient ∇f_i(x_0).
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedamd.algorithms import checks
from fedamd.algorithms.base import (
    Batches,
    Dialogue,
    Exchange,
    Federation,
    Gradient,
    Order,
    Reply,
    Size,
    State,
    Task,
    Turn,
    role,
)
from fedamd.algorithms.local import LocalSteps
from fedamd.algorithms.parameters import param
from fedamd.oracles.base import Batch


@role("starter", memory=("c",))
def start_variate(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """c_i = ∇f_i(x_0; b samples), once."""
    (large,) = batches
    c = grad(task.x, large)
    return Reply(c=c, memory={"c": c})


@role("worker", memory=("c",))
def walk_option_i(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """Corrected steps; then the gradient at x_t is the new variate."""
    *small, large = batches
    y, _ = _corrected_steps(task, small, grad)
    return reply_with(task, y, grad(task.x, large))


@role("worker", memory=("c",))
def walk_option_ii(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """Corrected steps; the mean of their gradients is the new variate."""
    return reply_with(task, *_corrected_steps(task, batches, grad))


def _corrected_steps(task: Task, batches: Sequence[Batch], grad: Gradient) -> tuple[Tensor, Tensor]:
    """y_K, and the mean minibatch gradient along the path."""
    y, total = task.x, torch.zeros_like(task.x)
    correction = task.c - task.memory.c
    for batch in batches:
        gradient = grad(y, batch)
        total = total + gradient
        y = y - task.eta_l * (gradient + correction)
    return y, total / len(batches)


def reply_with(task: Task, y: Tensor, c: Tensor) -> Reply:
    """Δ and how c_i changed; the client keeps the new one."""
    return Reply(delta=task.x - y, change=c - task.memory.c, memory={"c": c})


@dataclass(frozen=True, kw_only=True)
class ControlVariates(LocalSteps):
    """What SCAFFOLD and its relatives share: the variates' start, their mean c, and the round around local steps."""

    start_up: Literal["full", "zeros"] = param("full", "c_i at first: every client's gradient at x_0, or 0")
    large_batch: Size = param("full", "b, the batch of the start-up (and of option I)")

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of(self, "start_up", "full", "zeros")
        checks.batch_size(self, "large_batch")

    def start(self, x: Tensor, federation: Federation) -> Dialogue:
        """x_0 and the first control variates."""
        c = torch.zeros_like(x)
        if self.start_up == "full":
            replies = yield Exchange(start_variate.to(federation.everyone, Batches(1, self.large_batch), x=x))
            starters = replies["starter"]
            if len(starters):  # who did not reply holds c_i = 0
                c = starters.c.sum(0) / federation.clients
        return State(x=x, c=c)

    def round(self, state: State, turn: Turn) -> Dialogue:
        """Corrected local steps, their mean, and the change of the variates."""
        replies = yield Exchange(self.work(turn.cohort, state))
        workers = replies["worker"]
        if not len(workers):
            return state
        c = state.c + workers.change.sum(0) / turn.federation.clients
        delta = workers.delta.mean(0)
        return state.next(c=c, **self.remember(state, delta), **self.descend(state, delta))

    @abstractmethod
    def work(self, clients: Sequence[int], state: State) -> Order:
        """What the clients are asked to do."""

    def remember(self, state: State, delta: Tensor) -> dict[str, Tensor]:  # noqa: ARG002  for those who do
        """What else the server keeps of a round."""
        return {}


@dataclass(frozen=True, kw_only=True)
class Scaffold(ControlVariates):
    """SCAFFOLD's hyper-parameters."""

    option: Literal["I", "II"] = param("II", "how c_i is renewed")

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of(self, "option", "I", "II")

    def work(self, clients: Sequence[int], state: State) -> Order:
        """What the clients are asked to do."""
        sent = {"x": state.x, "c": state.c}
        if self.option == "I":
            large = Batches(1, self.large_batch)
            return walk_option_i.to(clients, self.local_batches, large, **sent, eta_l=self.eta_l)
        return walk_option_ii.to(clients, self.local_batches, **sent, eta_l=self.eta_l)
