"""Minibatch SGD: no local steps; a client's whole budget of samples goes into one gradient at x_t.

Blake Woodworth, Kumar Kshitij Patel & Nathan Srebro, "Minibatch vs local SGD for heterogeneous distributed learning",
NeurIPS 2020.

client   g_i = mean of K minibatch gradients ∇f_i(x_t; B_k), b' samples each: as many samples as FedAvg's client uses
server   x_{t+1} = x_t − η_s·mean of the g_i
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fedamd.algorithms import checks
from fedamd.algorithms.base import Batches, Dialogue, Exchange, Gradient, Reply, Size, State, Task, Turn, role
from fedamd.algorithms.parameters import param
from fedamd.algorithms.server import ServerStep
from fedamd.oracles.base import Batch


@role("worker")
def average(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """The mean of K minibatch gradients, all at x_t."""
    total = torch.zeros_like(task.x)
    for batch in batches:
        total = total + grad(task.x, batch)
    return Reply(gradient=total / len(batches))


@dataclass(frozen=True, kw_only=True)
class MinibatchSGD(ServerStep):
    """Minibatch SGD's hyper-parameters."""

    steps: int = param(10, "K, the minibatches of a client")
    small_batch: Size = param(64, "b', the samples of each")

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.whole(self, "steps")
        checks.batch_size(self, "small_batch")

    def round(self, state: State, turn: Turn) -> Dialogue:
        """One step along the mean gradient."""
        replies = yield Exchange(average.to(turn.cohort, Batches(self.steps, self.small_batch), x=state.x))
        workers = replies["worker"]
        if not len(workers):
            return state
        return state.next(**self.descend(state, workers.gradient.mean(0)))
