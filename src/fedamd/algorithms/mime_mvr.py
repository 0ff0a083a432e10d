"""MimeMVR: Mime with momentum-based variance reduction, kept by the server and held fixed on the clients.

Sai Praneeth Karimireddy et al., "Breaking the centralized barrier for cross-device federated learning", NeurIPS 2021
(first as "Mime", arXiv:2008.03606), their MVR.

The server keeps the estimate m and x_{t−1}; at first m = 0 and x_{−1} = x_0.

first    every client of the cohort, on a batch B of b samples:  ∇f_i(x_t; B) − (1 − a)·∇f_i(x_{t−1}; B)
server   m ← mean of these + (1 − a)·m, which is STORM's estimator at x_t
then     y_0 = x_t; for k = 0 … K−1: y_{k+1} = y_k − η_l·(∇f_i(y_k; B_k) − ∇f_i(x_t; B_k) + m)
server   x_{t+1} = x_t − η_s·mean of the Δ = x_t − y_K

Their local step a·(∇f_i(y) − ∇f_i(x_t) + c) + (1 − a)·(m' + ∇f_i(y) − ∇f_i(x_t)) is the same, collected: c, the mean
gradient at x_t, and m', the old estimate moved to x_t, enter the new m with the weights a and 1 − a.
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
from fedamd.algorithms.space import DAMPING, Space
from fedamd.oracles.base import Batch


@role("surveyor", gradients=2, reports_loss=False, memory=("x",))
def survey_both(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """A client's part of the new estimate; it keeps x_t for the second half of the round."""
    (large,) = batches
    before = grad(task.previous, large)
    return Reply(part=grad(task.x, large) - (1 - task.a) * before, memory={"x": task.x})


@role("worker", gradients=2, memory=("x",))
def walk_along(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """K steps along the estimate, moved to where the client is."""
    y = task.memory.x
    for batch in batches:
        y = y - task.eta_l * grad.corrected(task.m, y, task.memory.x, batch)
    return Reply(delta=task.memory.x - y)


@dataclass(frozen=True, kw_only=True)
class MimeMVR(LocalSteps):
    """MimeMVR's hyper-parameters."""

    a: float = param(0.1, "a, the share of a new gradient that owes nothing to the past")
    large_batch: Size = param("full", "b, the batch of the gradients at x_t and x_{t−1}")
    space: ClassVar[Space] = {**LocalSteps.space, "a": DAMPING}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(self, "a")
        checks.between(self, 0, 1, "a")
        checks.batch_size(self, "large_batch")

    def start(self, x: Tensor, federation: Federation) -> Dialogue:  # noqa: ARG002  nobody is asked
        """x_0 and m = 0, as if x_0 had been there before."""
        yield from ()
        return State(x=x, m=torch.zeros_like(x), previous=x)

    def round(self, state: State, turn: Turn) -> Dialogue:
        """The estimate at x_t first, then local steps along it."""
        sent = {"x": state.x, "previous": state.previous}
        replies = yield Exchange(survey_both.to(turn.cohort, Batches(1, self.large_batch), **sent, a=self.a))
        surveyors = replies["surveyor"]
        if not len(surveyors):
            return state
        m = surveyors.part.mean(0) + (1 - self.a) * state.m
        state = state.next(m=m, previous=state.x)
        replies = yield Exchange(walk_along.to(surveyors.clients, self.local_batches, m=m, eta_l=self.eta_l))
        workers = replies["worker"]
        if not len(workers):
            return state
        return state.next(**self.descend(state, workers.delta.mean(0)))
