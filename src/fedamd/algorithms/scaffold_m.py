"""SCAFFOLD-M and SCAFFOLD-M-VR: control variates and momentum on the clients.

Ziheng Cheng, Xinmeng Huang, Pengfei Wu & Kun Yuan, "Momentum benefits non-IID federated learning simply and provably",
ICLR 2024, Algorithm 2, without and with variance reduction.

Client i keeps c_i; the server keeps c, the mean of all M c_i, the momentum m (zero at first) and for VR x_{t−1}.

client   y_0 = x_t; for k = 0 … K−1, y_{k+1} = y_k − η_l·d_k, where
         SCAFFOLD-M      d_k = α·(∇f_i(y_k; B_k) − c_i + c) + (1 − α)·m
         SCAFFOLD-M-VR   d_k = ∇f_i(y_k; B_k) − α·(c_i − c) + (1 − α)·(m − ∇f_i(x_{t−1}; B_k))
         c_i⁺ = mean of ∇f_i(y_k; B_k);  sends Δ = x_t − y_K and c_i⁺ − c_i
server   x_{t+1} = x_t − η_s·mean of the Δ;  m ← mean of the Δ/(K·η_l);  c as in SCAFFOLD;  α = 1 is SCAFFOLD

The variates start as in `scaffold.py`; m starts at zero, where the analysis of VR starts it at a large-batch gradient.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedamd.algorithms import checks
from fedamd.algorithms.base import Dialogue, Federation, Gradient, Order, Reply, State, Task, role
from fedamd.algorithms.parameters import param
from fedamd.algorithms.scaffold import ControlVariates, reply_with
from fedamd.algorithms.space import DAMPING, Space
from fedamd.oracles.base import Batch


@role("worker", memory=("c",))
def walk_corrected(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """SCAFFOLD-M's steps."""
    y, total = task.x, torch.zeros_like(task.x)
    pull = task.alpha * (task.c - task.memory.c) + (1 - task.alpha) * task.m
    for batch in batches:
        gradient = grad(y, batch)
        total = total + gradient
        y = y - task.eta_l * (task.alpha * gradient + pull)
    return reply_with(task, y, total / len(batches))


@role("worker", gradients=2, memory=("c",))
def walk_corrected_vr(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """SCAFFOLD-M-VR's steps."""
    y, total = task.x, torch.zeros_like(task.x)
    pull = task.alpha * (task.c - task.memory.c) + (1 - task.alpha) * task.m
    for batch in batches:
        before = grad(task.previous, batch)  # first, so that the loss that is kept is the one at y
        gradient = grad(y, batch)
        total = total + gradient
        y = y - task.eta_l * (gradient - (1 - task.alpha) * before + pull)
    return reply_with(task, y, total / len(batches))


@dataclass(frozen=True, kw_only=True)
class ScaffoldM(ControlVariates):
    """SCAFFOLD-M's hyper-parameters."""

    alpha: float = param(0.1, "α, the share of the client's own corrected gradient; their β")
    space: ClassVar[Space] = {**ControlVariates.space, "alpha": DAMPING}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(self, "alpha")
        checks.between(self, 0, 1, "alpha")

    def start(self, x: Tensor, federation: Federation) -> Dialogue:
        """x_0, the first control variates, and m = 0."""
        state = yield from super().start(x, federation)
        return state.next(m=torch.zeros_like(x))

    def work(self, clients: Sequence[int], state: State) -> Order:
        """What the clients are asked to do."""
        sent = {"x": state.x, "c": state.c, "m": state.m}
        return walk_corrected.to(clients, self.local_batches, **sent, eta_l=self.eta_l, alpha=self.alpha)

    def remember(self, state: State, delta: Tensor) -> dict[str, Tensor]:  # noqa: ARG002  VR keeps x_t
        """The next momentum."""
        return {"m": delta / (self.steps * self.eta_l)}


@dataclass(frozen=True, kw_only=True)
class ScaffoldMVR(ScaffoldM):
    """SCAFFOLD-M-VR's hyper-parameters: SCAFFOLD-M's."""

    def start(self, x: Tensor, federation: Federation) -> Dialogue:
        """As SCAFFOLD-M, as if x_0 had been there before."""
        state = yield from super().start(x, federation)
        return state.next(previous=x)

    def work(self, clients: Sequence[int], state: State) -> Order:
        """What the clients are asked to do."""
        sent = {"x": state.x, "previous": state.previous, "c": state.c, "m": state.m}
        return walk_corrected_vr.to(clients, self.local_batches, **sent, eta_l=self.eta_l, alpha=self.alpha)

    def remember(self, state: State, delta: Tensor) -> dict[str, Tensor]:
        """The next momentum, and x_t."""
        return {**super().remember(state, delta), "previous": state.x}
