"""FedDyn: dynamic regularisation, which makes the clients' optima agree with the server's.

Durmus Alp Emre Acar et al., "Federated learning based on dynamic regularization", ICLR 2021, Algorithm 1.

Client i keeps λ_i (their ∇L_i(θ_i), zero at first); the server keeps h, always the mean of all M λ_i.

client   K steps of SGD on f_i(y) − ⟨λ_i, y⟩ + (α/2)·‖y − x_t‖²;  Δ = x_t − y_K;  λ_i ← λ_i + α·Δ
server   h ← h + (α/M)·Σ Δ over the clients that replied
         x_{t+1} = x_t − η_s·(mean of the Δ + h/α);  η_s = 1 is theirs

At a fixed point no client moves, so λ_i = ∇F_i(x) and h = mean ∇F_i(x) = 0: the optimum of F.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedamd.algorithms import checks
from fedamd.algorithms.base import Dialogue, Exchange, Federation, Gradient, Reply, State, Task, Turn, role
from fedamd.algorithms.local import LocalSteps
from fedamd.algorithms.parameters import param
from fedamd.algorithms.space import Log, Space
from fedamd.oracles.base import Batch


@role("worker", memory=("lam",))
def walk_regularised(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """K steps of SGD on the dynamically regularised loss."""
    lam = task.memory.lam
    y = task.x
    for batch in batches:
        y = y - task.eta_l * (grad(y, batch) - lam + task.alpha * (y - task.x))
    delta = task.x - y
    return Reply(delta=delta, memory={"lam": lam + task.alpha * delta})


@dataclass(frozen=True, kw_only=True)
class FedDyn(LocalSteps):
    """FedDyn's hyper-parameters."""

    alpha: float = param(0.1, "α, the weight of the regulariser")
    space: ClassVar[Space] = {**LocalSteps.space, "alpha": Log(0.001, 1.0)}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(self, "alpha")

    def start(self, x: Tensor, federation: Federation) -> Dialogue:  # noqa: ARG002  nobody is asked
        """x_0 and h = 0."""
        yield from ()
        return State(x=x, h=torch.zeros_like(x))

    def round(self, state: State, turn: Turn) -> Dialogue:
        """Regularised local steps, and the mean corrected by h."""
        replies = yield Exchange(
            walk_regularised.to(turn.cohort, self.local_batches, x=state.x, eta_l=self.eta_l, alpha=self.alpha)
        )
        workers = replies["worker"]
        if not len(workers):
            return state
        h = state.h + self.alpha * workers.delta.sum(0) / turn.federation.clients
        return state.next(h=h, **self.descend(state, workers.delta.mean(0) + h / self.alpha))
