"""FedVARP: the server's step is variance-reduced by every client's last update.

Divyansh Jhunjhunwala, Pranay Sharma, Aushim Nagarkatti & Gauri Joshi, "FedVARP: tackling the variance due to partial
client participation in federated learning", UAI 2022.

Of every client its last update y_i is remembered, zero at first; their mean over all M is ȳ.

client   K steps of SGD as in FedAvg;  Δ_i = x_t − y_K
server   v = mean of (Δ_i − y_i) over the cohort + ȳ;  x_{t+1} = x_t − η_s·v;  y_i ← Δ_i for the cohort

Theirs keeps the y_i on the server. Here each client keeps its own and sends Δ_i − y_i in place of Δ_i: the same
trajectory and the same bits, with a server whose memory does not grow with M.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedamd.algorithms.base import Dialogue, Exchange, Federation, Gradient, Reply, State, Task, Turn, role
from fedamd.algorithms.local import LocalSteps
from fedamd.oracles.base import Batch


@role("worker", memory=("last",))
def walk_and_compare(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """FedAvg's steps; the client sends how its update differs from its last one."""
    delta = task.x - grad.descend(task.x, task.eta_l, batches)
    return Reply(change=delta - task.memory.last, memory={"last": delta})


@dataclass(frozen=True, kw_only=True)
class FedVARP(LocalSteps):
    """FedVARP's hyper-parameters."""

    def start(self, x: Tensor, federation: Federation) -> Dialogue:  # noqa: ARG002  nobody is asked
        """x_0, and no updates yet."""
        yield from ()
        return State(x=x, mean_update=torch.zeros_like(x))

    def round(self, state: State, turn: Turn) -> Dialogue:
        """Local steps, and a step along the direction that their changes give."""
        replies = yield Exchange(walk_and_compare.to(turn.cohort, self.local_batches, x=state.x, eta_l=self.eta_l))
        workers = replies["worker"]
        if not len(workers):
            return state
        updated = state.mean_update + workers.change.sum(0) / turn.federation.clients
        return state.next(mean_update=updated, **self.descend(state, self.direction(state, workers.change, updated)))

    def direction(self, state: State, change: Tensor, updated: Tensor) -> Tensor:  # noqa: ARG002  MIFA's is `updated`
        """v, unbiased whoever is in the cohort."""
        return change.mean(0) + state.mean_update  # type: ignore[no-any-return]
