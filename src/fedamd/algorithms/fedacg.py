"""FedACG: clients start where the server's momentum is about to lead, and stay near it.

Geeho Kim, Jinkyu Kim & Bohyung Han, "Communication-efficient federated learning with accelerated client gradient", CVPR
2024.

The server keeps the momentum m, zero at first, and sends z = x_t + λ·m.

client   K steps of SGD on f_i(y) + (β/2)·‖y − z‖² from y_0 = z;  Δ = z − y_K
server   m ← λ·m − η_s·mean of the Δ;  x_{t+1} = x_t + m;  η_s = 1 is theirs, λ = 0 FedProx
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedamd.algorithms import checks
from fedamd.algorithms.base import Dialogue, Exchange, Federation, State, Turn
from fedamd.algorithms.fedprox import walk_nearby
from fedamd.algorithms.local import LocalSteps
from fedamd.algorithms.parameters import param
from fedamd.algorithms.space import Linear, Log, Space


@dataclass(frozen=True, kw_only=True)
class FedACG(LocalSteps):
    """FedACG's hyper-parameters."""

    lookahead: float = param(0.85, "λ, the server's momentum")
    beta: float = param(0.01, "β, the weight of the proximal term")
    space: ClassVar[Space] = {**LocalSteps.space, "lookahead": Linear(0.5, 0.95), "beta": Log(0.0001, 1.0)}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.between(self, 0, 1, "lookahead")
        checks.not_negative(self, "beta")

    def start(self, x: Tensor, federation: Federation) -> Dialogue:  # noqa: ARG002  nobody is asked
        """x_0 and m = 0."""
        yield from ()
        return State(x=x, m=torch.zeros_like(x))

    def round(self, state: State, turn: Turn) -> Dialogue:
        """Steps from the point ahead, and the server's step from there."""
        ahead = state.next(x=state.x + self.lookahead * state.m)
        replies = yield Exchange(
            walk_nearby.to(turn.cohort, self.local_batches, x=ahead.x, eta_l=self.eta_l, mu=self.beta)
        )
        workers = replies["worker"]
        if not len(workers):
            return state
        step = self.descend(ahead, workers.delta.mean(0))
        return state.next(m=step["x"] - state.x, **step)
