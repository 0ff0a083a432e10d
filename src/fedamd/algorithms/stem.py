"""STEM: momentum-based variance reduction on both sides.

Prashant Khanduri et al., "STEM: a stochastic two-sided momentum algorithm achieving near-optimal sample and
communication complexities for federated learning", NeurIPS 2021. Theirs is for all clients; here the cohort takes their
place. Their a and η shrink with t; here they are constant.

The server keeps the direction d, at first the mean of large-batch gradients at x_0.

client   y_0 = x_t, d_0 = d; for k = 0 … K−1: y_{k+1} = y_k − η_l·d_k;
             d_{k+1} = ∇f_i(y_{k+1}; B_k) + (1 − a)·(d_k − ∇f_i(y_k; B_k))
         sends Δ = x_t − y_K and d_K
server   x_{t+1} = x_t − η_s·mean of the Δ;  d ← mean of the d_K;  η_s = 1 is theirs
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
from fedamd.algorithms.local import LocalSteps, storm, survey
from fedamd.algorithms.parameters import param
from fedamd.algorithms.space import DAMPING, Space
from fedamd.oracles.base import Batch


@role("worker", gradients=2)
def walk_two_sided(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """K steps along STORM's estimator, which goes on from the server's and goes back to it."""
    y, d = task.x, task.d
    for batch in batches:
        before, y = y, y - task.eta_l * d
        d = storm(d, y, before, task.a, batch, grad)
    return Reply(delta=task.x - y, d=d)


@dataclass(frozen=True, kw_only=True)
class STEM(LocalSteps):
    """STEM's hyper-parameters."""

    a: float = param(0.1, "a, the share of a new gradient that owes nothing to the past")
    large_batch: Size = param("full", "b, the batch of the first d")
    start_up: Literal["full", "zeros"] = param("full", "d at first: the mean of every client's gradient, or 0")
    space: ClassVar[Space] = {**LocalSteps.space, "a": DAMPING}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(self, "a")
        checks.between(self, 0, 1, "a")
        checks.batch_size(self, "large_batch")
        checks.one_of(self, "start_up", "full", "zeros")

    def start(self, x: Tensor, federation: Federation) -> Dialogue:
        """x_0 and the first direction."""
        d = torch.zeros_like(x)
        if self.start_up == "full":
            replies = yield Exchange(survey.to(federation.everyone, Batches(1, self.large_batch), x=x))
            if len(surveyors := replies["surveyor"]):
                d = surveyors.gradient.mean(0)
        return State(x=x, d=d)

    def round(self, state: State, turn: Turn) -> Dialogue:
        """Steps along the estimator; models and directions are averaged."""
        sent = {"x": state.x, "d": state.d}
        replies = yield Exchange(walk_two_sided.to(turn.cohort, self.local_batches, **sent, eta_l=self.eta_l, a=self.a))
        workers = replies["worker"]
        if not len(workers):
            return state
        return state.next(d=workers.d.mean(0), **self.descend(state, workers.delta.mean(0)))
