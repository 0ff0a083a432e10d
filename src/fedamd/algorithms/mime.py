"""Mime and MimeLite: clients follow the server's momentum, held fixed during their local steps.

Sai Praneeth Karimireddy et al., "Breaking the centralized barrier for cross-device federated learning", NeurIPS 2021,
with SGD-momentum as the base optimiser: U(g, s) = V(g, s) = (1 − β)·g + β·s.

The clients hold nothing between rounds; the server keeps x_t and the momentum s, zero at first.

Mime       first   ∇f_i(x_t; b samples) of every client of the cohort;  c = their mean
           then    y_0 = x_t; for k = 0 … K−1: g = ∇f_i(y_k; B_k) − ∇f_i(x_t; B_k) + c;  y_{k+1} = y_k − η_l·U(g, s)
MimeLite   one exchange: the same with g = ∇f_i(y_k; B_k), and ∇f_i(x_t; b samples) beside it;  c = their mean
server     x_{t+1} = x_t − η_s·mean of Δ = x_t − y_K;  s ← V(c, s)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedamd.algorithms import checks
from fedamd.algorithms.base import (
    Batches,
    Dialogue,
    Exchange,
    Federation,
    Gradient,
    Reply,
    Size,
    State,
    Task,
    Turn,
    role,
)
from fedamd.algorithms.local import LocalSteps
from fedamd.algorithms.parameters import param
from fedamd.algorithms.space import Linear, Space
from fedamd.oracles.base import Batch


@role("surveyor", reports_loss=False)
def survey_silently(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """The large-batch gradient at x_t. Its loss is left to the local steps to report."""
    (large,) = batches
    return Reply(gradient=grad(task.x, large))


@role("worker", gradients=2)
def walk_with_momentum(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """Mime: K steps along the server's momentum and SVRG-corrected gradients. At k = 0 the correction cancels."""
    y = task.x
    for batch in batches:
        g = grad.corrected(task.c, y, task.x, batch)
        y = y - task.eta_l * ((1 - task.beta) * g + task.beta * task.s)
    return Reply(delta=task.x - y)


@role("worker")
def walk_lite(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """MimeLite: K steps along the server's momentum and plain gradients; and the large-batch gradient at x_t."""
    *small, large = batches
    y = task.x
    for batch in small:
        y = y - task.eta_l * ((1 - task.beta) * grad(y, batch) + task.beta * task.s)
    return Reply(delta=task.x - y, gradient=grad(task.x, large))


@dataclass(frozen=True, kw_only=True)
class MimeLite(LocalSteps):
    """MimeLite's hyper-parameters."""

    large_batch: Size = param("full", "b, the batch of the gradients at x_t")
    beta: float = param(0.9, "β, the momentum")
    space: ClassVar[Space] = {**LocalSteps.space, "beta": Linear(0.0, 0.99)}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.between(self, 0, 1, "beta")
        checks.batch_size(self, "large_batch")

    def start(self, x: Tensor, federation: Federation) -> Dialogue:  # noqa: ARG002  nobody is asked
        """x_0 and s = 0."""
        yield from ()
        return State(x=x, s=torch.zeros_like(x))

    def round(self, state: State, turn: Turn) -> Dialogue:
        """Local steps and gradients at x_t in one exchange."""
        replies = yield Exchange(
            walk_lite.to(
                turn.cohort,
                self.local_batches,
                Batches(1, self.large_batch),
                x=state.x,
                s=state.s,
                eta_l=self.eta_l,
                beta=self.beta,
            )
        )
        workers = replies["worker"]
        if not len(workers):
            return state
        return self._next(state, workers.gradient.mean(0), workers.delta.mean(0))

    def _next(self, state: State, c: Tensor, delta: Tensor) -> State:
        return state.next(s=(1 - self.beta) * c + self.beta * state.s, **self.descend(state, delta))


@dataclass(frozen=True, kw_only=True)
class Mime(MimeLite):
    """Mime's hyper-parameters: MimeLite's."""

    def round(self, state: State, turn: Turn) -> Dialogue:
        """Gradients at x_t first, then local steps with their mean."""
        replies = yield Exchange(survey_silently.to(turn.cohort, Batches(1, self.large_batch), x=state.x))
        surveyors = replies["surveyor"]
        if not len(surveyors):
            return state
        c = surveyors.gradient.mean(0)
        replies = yield Exchange(
            walk_with_momentum.to(
                surveyors.clients, self.local_batches, x=state.x, c=c, s=state.s, eta_l=self.eta_l, beta=self.beta
            )
        )
        workers = replies["worker"]
        if not len(workers):
            return state
        return self._next(state, c, workers.delta.mean(0))
