"""FedAvg-M-VR: FedCM whose momentum is brought along to where the client is.

Ziheng Cheng, Xinmeng Huang, Pengfei Wu & Kun Yuan, "Momentum benefits non-IID federated learning simply and provably",
ICLR 2024, Algorithm 1 with variance reduction.

The server keeps the momentum m and x_{t−1}; at first m = 0 and x_{−1} = x_0 (theirs: m a large-batch gradient at x_0).

client   y_0 = x_t; for k = 0 … K−1: y_{k+1} = y_k − η_l·(∇f_i(y_k; B_k) + (1 − α)·(m − ∇f_i(x_{t−1}; B_k)))
server   x_{t+1} = x_t − η_s·mean of the Δ = x_t − y_K;  m ← mean of the Δ/(K·η_l);  α = 1 is FedAvg

The direction is STORM's estimator (Cutkosky & Orabona, NeurIPS 2019): see `storm` in `local.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from fedamd.algorithms.base import Dialogue, Federation, Gradient, Order, Reply, State, Task, Turn, role
from fedamd.algorithms.fedcm import FedCM
from fedamd.algorithms.local import storm
from fedamd.oracles.base import Batch


@role("worker", gradients=2)
def walk_with_corrected_momentum(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """K steps along STORM's estimator, recursive from round to round."""
    y = task.x
    for batch in batches:
        y = y - task.eta_l * storm(task.m, y, task.previous, task.alpha, batch, grad)
    return Reply(delta=task.x - y)


@dataclass(frozen=True, kw_only=True)
class FedAvgMVR(FedCM):
    """FedAvg-M-VR's hyper-parameters: FedCM's."""

    def start(self, x: Tensor, federation: Federation) -> Dialogue:
        """x_0 and m = 0, as if x_0 had been there before."""
        state = yield from super().start(x, federation)
        return state.next(previous=x)

    def round(self, state: State, turn: Turn) -> Dialogue:
        """FedCM's round, and x_t is kept for the next one."""
        after = yield from super().round(state, turn)
        return after if after is state else after.next(previous=state.x)

    def work(self, clients: Sequence[int], state: State) -> Order:
        """What the clients are asked to do."""
        sent: dict[str, Tensor | float] = {"x": state.x, "previous": state.previous, "m": state.m}
        rates = {"eta_l": self.eta_l, "alpha": self.alpha}
        return walk_with_corrected_momentum.to(clients, self.local_batches, **sent, **rates)
