"""FedCM: clients step along the server's momentum and their own gradients.

Jing Xu, Sen Wang, Liwei Wang & Andrew Chi-Chih Yao, "FedCM: federated learning with client-level momentum",
arXiv:2106.10874; the same method as FedAvg-M of Ziheng Cheng, Xinmeng Huang, Pengfei Wu & Kun Yuan, "Momentum benefits
non-IID federated learning simply and provably", ICLR 2024, whose β is α here.

The server keeps the momentum m, zero at first.

client   y_0 = x_t; for k = 0 … K−1: y_{k+1} = y_k − η_l·(α·∇f_i(y_k; B_k) + (1 − α)·m);  Δ = x_t − y_K
server   x_{t+1} = x_t − η_s·mean of the Δ;  m ← mean of the Δ/(K·η_l);  α = 1 is FedAvg
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedamd.algorithms import checks
from fedamd.algorithms.base import Dialogue, Exchange, Federation, Gradient, Order, Reply, State, Task, Turn, role
from fedamd.algorithms.local import LocalSteps
from fedamd.algorithms.parameters import param
from fedamd.algorithms.space import DAMPING, Space
from fedamd.oracles.base import Batch


@role("worker")
def walk_with_momentum(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """K steps along the mixture of momentum and gradient."""
    y, pull = task.x, (1 - task.alpha) * task.m
    for batch in batches:
        y = y - task.eta_l * (task.alpha * grad(y, batch) + pull)
    return Reply(delta=task.x - y)


@dataclass(frozen=True, kw_only=True)
class FedCM(LocalSteps):
    """FedCM's hyper-parameters."""

    alpha: float = param(0.1, "α, the share of the client's own gradient")
    space: ClassVar[Space] = {**LocalSteps.space, "alpha": DAMPING}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(self, "alpha")
        checks.between(self, 0, 1, "alpha")

    def start(self, x: Tensor, federation: Federation) -> Dialogue:  # noqa: ARG002  nobody is asked
        """x_0 and m = 0."""
        yield from ()
        return State(x=x, m=torch.zeros_like(x))

    def round(self, state: State, turn: Turn) -> Dialogue:
        """Steps along the momentum, whose mean is the next momentum."""
        replies = yield Exchange(self.work(turn.cohort, state))
        workers = replies["worker"]
        if not len(workers):
            return state
        delta = workers.delta.mean(0)
        return state.next(m=delta / (self.steps * self.eta_l), **self.descend(state, delta))

    def work(self, clients: Sequence[int], state: State) -> Order:
        """What the clients are asked to do."""
        sent: dict[str, Tensor | float] = {"x": state.x, "m": state.m, "eta_l": self.eta_l, "alpha": self.alpha}
        return walk_with_momentum.to(clients, self.local_batches, **sent)
