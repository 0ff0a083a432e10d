"""FedAvg: federated averaging.

Brendan McMahan et al., "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017.

client   y_0 = x_t; for k = 0 … K−1, on a batch B_k of b' samples: y_{k+1} = y_k − η_l·∇f_i(y_k; B_k);  Δ = x_t − y_K
server   x_{t+1} = x_t − η_s·mean of the Δ

With another server step this is FedAvgM, FedAdam, FedYogi or FedAdaGrad: see `server.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from fedamd.algorithms import checks
from fedamd.algorithms.base import Dialogue, Exchange, Order, State, Turn, mean
from fedamd.algorithms.local import LocalSteps, walk
from fedamd.algorithms.parameters import param


@dataclass(frozen=True, kw_only=True)
class FedAvg(LocalSteps):
    """FedAvg's hyper-parameters."""

    weights: Literal["uniform", "samples"] = param("uniform", "clients weigh the same, or by n_i as McMahan et al. do")

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of(self, "weights", "uniform", "samples")

    def round(self, state: State, turn: Turn) -> Dialogue:
        """K local steps of every client, and the mean of where they lead."""
        replies = yield Exchange(self.work(turn.cohort, state.x))
        workers = replies["worker"]
        if not len(workers):
            return state
        weights = turn.federation.weights(workers.clients, self.weights, state.x)
        return state.next(**self.descend(state, mean(workers.delta, weights)))

    def work(self, clients: Sequence[int], x: Tensor) -> Order:
        """What the clients are asked to do."""
        return walk.to(clients, self.local_batches, x=x, eta_l=self.eta_l)
