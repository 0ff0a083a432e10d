"""FedProx: local steps held near the server's model by a proximal term.

Tian Li et al., "Federated optimization in heterogeneous networks", MLSys 2020.

client   K steps of SGD on f_i(y) + (μ/2)·‖y − x_t‖²:  y_{k+1} = y_k − η_l·(∇f_i(y_k; B_k) + μ·(y_k − x_t))
server   as FedAvg; μ = 0 is FedAvg
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedamd.algorithms import checks
from fedamd.algorithms.base import Gradient, Order, Reply, Task, role
from fedamd.algorithms.fedavg import FedAvg
from fedamd.algorithms.parameters import param
from fedamd.algorithms.space import Log, Space
from fedamd.oracles.base import Batch


@role("worker")
def walk_nearby(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """K steps of SGD on f_i and the proximal term."""
    y = task.x
    for batch in batches:
        y = y - task.eta_l * (grad(y, batch) + task.mu * (y - task.x))
    return Reply(delta=task.x - y)


@dataclass(frozen=True, kw_only=True)
class FedProx(FedAvg):
    """FedProx's hyper-parameters: FedAvg's, and μ."""

    mu: float = param(0.01, "μ, the weight of the proximal term")
    space: ClassVar[Space] = {**FedAvg.space, "mu": Log(0.0001, 1.0)}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.not_negative(self, "mu")

    def work(self, clients: Sequence[int], x: Tensor) -> Order:
        """What the clients are asked to do."""
        return walk_nearby.to(clients, self.local_batches, x=x, eta_l=self.eta_l, mu=self.mu)
