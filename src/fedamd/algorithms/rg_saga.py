"""RG-SAGA: a recursive gradient around SAGA's estimate, and local steps along it.

Xiaowen Jiang, Anton Rodomanov & Sebastian U. Stich, "Non-convex federated optimization under cost-aware client
selection", ICLR 2026 (arXiv:2512.05327).

Client i keeps b_i, its gradient where it was last asked; the server keeps b, the mean of all M b_i, the estimate g, and
x_{t−1}. At first b_i = ∇f_i(x_0), g = b and x_{−1} = x_0 (or all zero: `start_up`).

first    every client of the cohort S, on a batch of b samples: ∇f_i(x_{t−1}) − b_i and ∇f_i(x_t) − ∇f_i(x_{t−1});
         b_i ← ∇f_i(x_{t−1})
server   G = b + mean of the first ones, which is SAGA's estimate at x_{t−1};  b follows the b_i
         g ← (1 − β)·g + β·G + mean of the second ones
then     y_0 = x_t; for k = 0 … K−1: y_{k+1} = y_k − η_l·(∇f_i(y_k; B_k) − ∇f_i(x_t; B_k) + g + μ·(y_k − x_t))
server   x_{t+1} = x_t − η_s·mean of the Δ = x_t − y_K

In theirs one client, always the same, solves the proximal subproblem of the last step to an accuracy; here every client
of the cohort takes K stochastic steps on it, and their mean counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

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


@role("starter", memory=("b", "x"))
def start_table(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """b_i = ∇f_i(x_0; b samples), once."""
    (large,) = batches
    b = grad(task.x, large)
    return Reply(b=b, memory={"b": b, "x": task.x})


@role("surveyor", gradients=2, reports_loss=False, memory=("b", "x"))
def survey_both(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """How the gradient at x_{t−1} differs from the remembered one, and that at x_t from it; x_t is kept for later."""
    (large,) = batches
    before = grad(task.previous, large)
    change, difference = before - task.memory.b, grad(task.x, large) - before
    return Reply(change=change, difference=difference, memory={"b": before, "x": task.x})


@role("worker", gradients=2, memory=("x",))
def walk_nearby_along(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """K steps along the estimate, moved to where the client is, and drawn back to x_t."""
    x = y = task.memory.x
    for batch in batches:
        y = y - task.eta_l * (grad.corrected(task.g, y, x, batch) + task.mu * (y - x))
    return Reply(delta=x - y)


@dataclass(frozen=True, kw_only=True)
class RGSAGA(LocalSteps):
    """RG-SAGA's hyper-parameters."""

    beta: float = param(0.1, "β, the share of SAGA's estimate")
    mu: float = param(0.0, "μ, the weight of the proximal term; their λ")
    large_batch: Size = param("full", "b, the batch of the gradients at x_t and x_{t−1}")
    start_up: Literal["full", "zeros"] = param("full", "b_i at first: every client's gradient, or 0")
    space: ClassVar[Space] = {**LocalSteps.space, "beta": DAMPING}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.between(self, 0, 1, "beta")
        checks.not_negative(self, "mu")
        checks.batch_size(self, "large_batch")
        checks.one_of(self, "start_up", "full", "zeros")

    def start(self, x: Tensor, federation: Federation) -> Dialogue:
        """x_0, the first table and its mean."""
        mean = torch.zeros_like(x)
        if self.start_up == "full":
            replies = yield Exchange(start_table.to(federation.everyone, Batches(1, self.large_batch), x=x))
            if len(starters := replies["starter"]):  # who did not reply holds b_i = 0
                mean = starters.b.sum(0) / federation.clients
        return State(x=x, b=mean, g=mean, previous=x)

    def round(self, state: State, turn: Turn) -> Dialogue:
        """The estimate at x_t first, then local steps along it."""
        sent = {"x": state.x, "previous": state.previous}
        replies = yield Exchange(survey_both.to(turn.cohort, Batches(1, self.large_batch), **sent))
        surveyors = replies["surveyor"]
        if not len(surveyors):
            return state
        saga = state.b + surveyors.change.mean(0)
        g = (1 - self.beta) * state.g + self.beta * saga + surveyors.difference.mean(0)
        b = state.b + surveyors.change.sum(0) / turn.federation.clients
        state = state.next(b=b, g=g, previous=state.x)
        replies = yield Exchange(
            walk_nearby_along.to(surveyors.clients, self.local_batches, g=g, eta_l=self.eta_l, mu=self.mu)
        )
        workers = replies["worker"]
        if not len(workers):
            return state
        return state.next(**self.descend(state, workers.delta.mean(0)))
