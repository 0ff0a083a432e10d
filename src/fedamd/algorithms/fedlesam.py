"""FedLESAM: sharpness-aware local steps whose perturbation costs no gradient.

Ziqing Fan et al., "Locally estimated global perturbations are better than local perturbations for federated
sharpness-aware minimization", ICML 2024 (arXiv:2405.18890), on FedAvg.

Client i remembers the model w_i that it was sent last; who was sent none yet takes plain steps.

client   δ = ρ·(w_i − x_t)/‖w_i − x_t‖, uphill of where the server has gone;  w_i ← x_t
         y_0 = x_t; for k = 0 … K−1: y_{k+1} = y_k − η_l·∇f_i(y_k + δ; B_k);  Δ = x_t − y_K
server   x_{t+1} = x_t − η_s·mean of the Δ;  ρ = 0 is FedAvg

Their code also clips gradients and takes the server's last update for w_i − x_t; this is the rule of the paper.
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


@role("worker", memory=("w",))
def walk_perturbed(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """K steps along gradients taken a little uphill."""
    uphill = (1 - task.fresh) * (task.memory.w - task.x)
    norm = uphill.norm(dim=-1, keepdim=True)
    perturbation = task.rho * uphill / (norm + 1e-12)  # nowhere to go, no perturbation
    y = task.x
    for batch in batches:
        y = y - task.eta_l * grad(y + perturbation, batch)
    return Reply(delta=task.x - y, memory={"w": task.x})


@dataclass(frozen=True, kw_only=True)
class FedLESAM(FedAvg):
    """FedLESAM's hyper-parameters: FedAvg's, and ρ."""

    rho: float = param(0.1, "ρ, the length of the perturbation")
    space: ClassVar[Space] = {**FedAvg.space, "rho": Log(0.003, 0.3)}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.not_negative(self, "rho")

    def work(self, clients: Sequence[int], x: Tensor) -> Order:
        """What the clients are asked to do."""
        return walk_perturbed.to(clients, self.local_batches, x=x, eta_l=self.eta_l, rho=self.rho)
