"""BVR-L-SGD: bias-variance reduced local SGD.

Tomoya Murata & Taiji Suzuki, "Bias-variance reduced local SGD for less heterogeneous federated learning", ICML 2021;
adapted to partial participation by Wu et al. (2023), who let a cohort stand for all clients.

S is the cohort of the period's first round, or all M clients as in the original. Each client of S keeps an estimate
v_i of its gradient and the point x where it was last brought up to date.

every T rounds   v_i = ∇f_i(x_t; b samples) for every client of S
every round      v_i ← v_i + mean over k of ∇f_i(x_t; B_k) − ∇f_i(x; B_k), on K batches of b' samples;  v = mean of v_i
                 one random client of S takes K recursive steps from x_t along v and sends Δ = x_t − x_K:
                 g_0 = v;  g_{k+1} = g_k + ∇f_i(x_k; B_k) − ∇f_i(x_{k−1}; B_k);  x_{k+1} = x_k − η_l·g_{k+1}
server           x_{t+1} = x_t − η_s·Δ;  η_s = 1 makes that client's result the new model, as in the original

In the first round of a period v_i is at x_t already and the differences vanish; they are taken and counted all the
same. With synchronise = "mean" all of S take the local steps and Δ is their mean; then a period of one
round with everyone is FedAMD with p = 1, 0, 1, 0, …
"""

import math
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
    Reply,
    Size,
    State,
    Task,
    Turn,
    role,
)
from fedamd.algorithms.local import LocalSteps, recursive_steps
from fedamd.algorithms.parameters import param
from fedamd.oracles.base import Batch


@role("surveyor", reports_loss=False, memory=("x", "v"))
def survey_and_keep(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """v_i anew: the large-batch gradient at x_t."""
    (large,) = batches
    v = grad(task.x, large)
    return Reply(v=v, memory={"x": task.x, "v": v})


@role("tracker", gradients=2, memory=("x", "v"))
def track(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """Bring v_i from the point where it was last up to date to x_t. A round that was missed is made up for."""
    change = torch.zeros_like(task.x)
    for batch in batches:
        change = change + grad.difference(task.x, task.memory.x, batch)
    v = task.memory.v + change / len(batches)
    return Reply(v=v, memory={"x": task.x, "v": v})


@role("walker", gradients=2, memory=("x",))
def walk_along(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """K recursive steps along v from x_t, which the client holds since it tracked its estimate."""
    x = task.memory.x
    return Reply(delta=x - recursive_steps(x, task.v, task.eta_l, batches, grad))


@dataclass(frozen=True, kw_only=True)
class BVRLSGD(LocalSteps):
    """BVR-L-SGD's hyper-parameters."""

    large_batch: Size = param("full", "b, the batch of v_i at a period's start")
    period: int | None = param(
        None, "T, rounds from one large batch to the next; without it ⌈1 + n/(K·b')⌉, n the mean n_m"
    )
    participation: Literal["cohort", "everyone"] = param("cohort", "S: as adapted by Wu et al., or as in the original")
    synchronise: Literal["one", "mean"] = param("one", "Δ of one random client of S, or the mean of all")

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.batch_size(self, "large_batch")
        checks.one_of(self, "participation", "cohort", "everyone")
        checks.one_of(self, "synchronise", "one", "mean")
        if self.period is not None:
            checks.whole(self, "period")

    def rounds_of_a_period(self, federation: Federation) -> int:
        """T."""
        if self.period is not None:
            return self.period
        owned = federation.samples / federation.clients
        return math.ceil(1 + owned / (self.steps * (owned if self.small_batch == "full" else self.small_batch)))

    def start(self, x: Tensor, federation: Federation) -> Dialogue:  # noqa: ARG002  nobody is asked
        """x_0, and nobody in S yet."""
        yield from ()
        return State(x=x, members=torch.zeros(0, dtype=torch.int64))

    def round(self, state: State, turn: Turn) -> Dialogue:
        """Renew S if it is time, track the estimates of S, and walk along their mean."""
        members: Sequence[int] = state.members.tolist()
        if turn.t % self.rounds_of_a_period(turn.federation) == 0 or not members:
            chosen = turn.cohort if self.participation == "cohort" else turn.federation.everyone
            replies = yield Exchange(survey_and_keep.to(chosen, Batches(1, self.large_batch), x=state.x))
            members = replies["surveyor"].clients  # who did not reply has no estimate and is not of S
            state = state.next(members=torch.tensor(members, dtype=torch.int64))
        replies = yield Exchange(track.to(members, self.local_batches, x=state.x))
        trackers = replies["tracker"]
        if not len(trackers):
            return state
        walkers = trackers.clients if self.synchronise == "mean" else (turn.choose(trackers.clients),)
        replies = yield Exchange(walk_along.to(walkers, self.local_batches, v=trackers.v.mean(0), eta_l=self.eta_l))
        if not len(replies["walker"]):
            return state
        return state.next(**self.descend(state, replies["walker"].delta.mean(0)))
