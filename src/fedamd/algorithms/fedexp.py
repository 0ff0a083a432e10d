"""FedExP: the server goes further the more its clients disagree.

Divyansh Jhunjhunwala, Shiqiang Wang & Gauri Joshi, "FedExP: speeding up federated averaging via extrapolation", ICLR
2023.

client   K steps of SGD as in FedAvg;  Δ_i = x_t − y_K
server   e = max(1, Σ‖Δ_i‖² / (2A·(‖Δ̄‖² + ε))) with Δ̄ the mean of the A that replied;  x_{t+1} = x_t − η_s·e·Δ̄
         what is evaluated is (x_t + x_{t−1})/2, for x itself oscillates;  η_s = 1 is theirs
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedamd.algorithms import checks
from fedamd.algorithms.base import Dialogue, Exchange, State, Turn
from fedamd.algorithms.local import LocalSteps, walk
from fedamd.algorithms.parameters import param
from fedamd.algorithms.space import LOCAL_RATE, Log, Space


@dataclass(frozen=True, kw_only=True)
class FedExP(LocalSteps):
    """FedExP's hyper-parameters."""

    epsilon: float = param(1e-3, "ε, which keeps the extrapolation within bounds")
    space: ClassVar[Space] = {"eta_l": LOCAL_RATE, "epsilon": Log(1e-4, 0.1)}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(self, "epsilon")

    def round(self, state: State, turn: Turn) -> Dialogue:
        """FedAvg's round with a longer step."""
        replies = yield Exchange(walk.to(turn.cohort, self.local_batches, x=state.x, eta_l=self.eta_l))
        workers = replies["worker"]
        if not len(workers):
            return state
        return state.next(previous=state.x, **self.descend(state, self.extrapolated(workers.delta)))

    def extrapolated(self, deltas: Tensor) -> Tensor:
        """e·Δ̄."""
        mean = deltas.mean(0)
        disagreement = deltas.square().sum(-1).mean() / (2 * (mean.square().sum() + self.epsilon))
        return disagreement.clamp_min(1) * mean

    def evaluated(self, state: State) -> Tensor:
        """The mean of the last two models."""
        return (state.x + state.get("previous", state.x)) / 2  # type: ignore[no-any-return]
