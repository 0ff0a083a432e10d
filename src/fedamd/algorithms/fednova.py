"""FedNova: normalised averaging, for clients that take different numbers of local steps.

Jianyu Wang et al., "Tackling the objective inconsistency problem in heterogeneous federated optimization", NeurIPS
2020, for plain SGD on the clients (their a_i is a vector of τ_i ones).

client   τ_i steps of SGD as in FedAvg, E passes over its data: τ_i = ⌈E·n_i/b'⌉;  Δ_i = x_t − y_{τ_i}
server   w_i the weights of the clients that replied, made to sum to 1;  τ_eff = Σ w_i·τ_i
         x_{t+1} = x_t − η_s·τ_eff·Σ w_i·Δ_i/τ_i;  with equal τ_i this is FedAvg
"""

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedamd.algorithms import checks
from fedamd.algorithms.base import Batches, Dialogue, Exchange, Role, Size, State, Turn, mean
from fedamd.algorithms.local import walk
from fedamd.algorithms.parameters import param
from fedamd.algorithms.server import ServerStep
from fedamd.algorithms.space import LOCAL_RATE, SERVER_RATE, Space


@cache
def walk_for(steps: int) -> Role:
    """FedAvg's client under a name of its own: clients with as many steps form a role, and roles differ in name."""
    return replace(walk, name=f"{steps}-step worker")


@dataclass(frozen=True, kw_only=True)
class FedNova(ServerStep):
    """FedNova's hyper-parameters."""

    eta_l: float = param(0.03, "η_l, the clients' step")
    epochs: float = param(1.0, "E, passes of a client over its own data")
    small_batch: Size = param(64, "b', the batch of one local step")
    weights: Literal["uniform", "samples"] = param("uniform", "w_i: all the same, or by n_i as Wang et al. do")
    space: ClassVar[Space] = {"eta_l": LOCAL_RATE, "eta_s": SERVER_RATE}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(self, "eta_l", "epochs")
        checks.batch_size(self, "small_batch")
        checks.one_of(self, "weights", "uniform", "samples")

    def local_steps(self, owned: int) -> int:
        """τ_i of a client that owns n_i samples."""
        passes = 1 if self.small_batch == "full" else owned / min(self.small_batch, owned)
        return math.ceil(self.epochs * passes)

    def round(self, state: State, turn: Turn) -> Dialogue:
        """Local steps, as many as each client's data ask for, and the normalised mean of where they lead."""
        groups: dict[int, list[int]] = defaultdict(list)
        for client in turn.cohort:
            groups[self.local_steps(turn.federation.sizes[client])].append(client)
        replies = yield Exchange(
            *(
                walk_for(steps).to(clients, Batches(steps, self.small_batch), x=state.x, eta_l=self.eta_l)
                for steps, clients in groups.items()
            )
        )
        came = {steps: group for steps in groups if len(group := replies[walk_for(steps).name])}
        if not came:
            return state
        per_step = torch.cat([group.delta / steps for steps, group in came.items()])  # Δ_i/τ_i
        taken = torch.cat([_column(len(group), steps, per_step) for steps, group in came.items()])  # τ_i
        clients = [client for group in came.values() for client in group.clients]
        weights = turn.federation.weights(clients, self.weights, state.x)
        return state.next(**self.descend(state, mean(taken, weights) * mean(per_step, weights)))


def _column(rows: int, value: float, like: Tensor) -> Tensor:
    return like.new_full((rows, 1), value)
