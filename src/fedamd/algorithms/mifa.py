"""MIFA: memory-augmented impatient federated averaging.

Xinran Gu, Kaixuan Huang, Jingzhao Zhang & Longbo Huang, "Fast federated learning in the presence of arbitrary device
unavailability", NeurIPS 2021, in its variant where devices keep their own memory.

client   K steps of SGD as in FedAvg;  G_i ← Δ_i = x_t − y_K; sends how G_i changed
server   x_{t+1} = x_t − η_s·mean of all M G_i: who is not there is represented by its last update

Theirs is SAG where FedVARP is SAGA: less variance, more bias. They begin with a round of everyone; here that is the
start-up pass (`start_up = "full"`), or it is left out and G_i = 0 until client i has replied.
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from fedamd.algorithms import checks
from fedamd.algorithms.base import Dialogue, Exchange, Federation, State
from fedamd.algorithms.fedvarp import FedVARP, walk_and_compare
from fedamd.algorithms.parameters import param


@dataclass(frozen=True, kw_only=True)
class MIFA(FedVARP):
    """MIFA's hyper-parameters."""

    start_up: Literal["full", "zeros"] = param("full", "G_i at first: every client's update from x_0, or 0")

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of(self, "start_up", "full", "zeros")

    def start(self, x: Tensor, federation: Federation) -> Dialogue:
        """x_0 and the first updates, from which round 0 sets out."""
        state = yield from super().start(x, federation)
        if self.start_up == "full":
            everyone = federation.everyone
            replies = yield Exchange(walk_and_compare.to(everyone, self.local_batches, x=x, eta_l=self.eta_l))
            if len(workers := replies["worker"]):
                state = state.next(mean_update=workers.change.sum(0) / federation.clients)
        return state

    def direction(self, state: State, change: Tensor, updated: Tensor) -> Tensor:  # noqa: ARG002  FedVARP's need them
        """The mean of all that is remembered."""
        return updated
