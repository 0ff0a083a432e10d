"""The server's step along the mean Δ of its clients: plain, with momentum, or adaptive.

plain      x ← x − η_s·Δ
momentum   m ← β₁·m + Δ;  x ← x − η_s·m                     FedAvgM: Hsu, Qi & Brown, arXiv:1909.06335
adaptive   m ← β₁·m + (1 − β₁)·Δ;  x ← x − η_s·m / (√v + ε)  Reddi et al., "Adaptive federated optimization", ICLR 2021
           adagrad  v ← v + Δ²
           adam     v ← β₂·v + (1 − β₂)·Δ²
           yogi     v ← v − (1 − β₂)·Δ²·sign(v − Δ²)
           with v starting at ε² and no bias correction, as in their Algorithm 2.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedamd.algorithms import checks
from fedamd.algorithms.base import Algorithm, State
from fedamd.algorithms.parameters import param
from fedamd.algorithms.space import GRADIENT_RATE, Space


@dataclass(frozen=True, kw_only=True)
class ServerStep(Algorithm):
    """The hyper-parameters of the server's step, for every method whose clients return a Δ."""

    eta_s: float = param(1.0, "η_s, the server's step")
    server: Literal["plain", "momentum", "adagrad", "adam", "yogi"] = param(
        "plain", "what is done with the mean update"
    )
    beta_1: float = param(0.9, "β₁, for momentum and the adaptive steps")
    beta_2: float = param(0.99, "β₂, for adam and yogi")
    adaptivity: float = param(1e-3, "ε of the adaptive steps")
    space: ClassVar[Space] = {"eta_s": GRADIENT_RATE}

    def __post_init__(self) -> None:
        checks.positive(self, "eta_s", "adaptivity")
        checks.between(self, 0, 1, "beta_1", "beta_2")
        checks.one_of(self, "server", "plain", "momentum", "adagrad", "adam", "yogi")

    def descend(self, state: State, delta: Tensor) -> dict[str, Tensor]:
        """The changes of the state that one step along Δ makes: x, and the step's own memory."""
        if self.server == "plain":
            return {"x": state.x - self.eta_s * delta}
        m = state.get("server_m", torch.zeros_like(delta))
        if self.server == "momentum":
            m = self.beta_1 * m + delta
            return {"x": state.x - self.eta_s * m, "server_m": m}
        v = state.get("server_v", torch.full_like(delta, self.adaptivity**2))
        m = self.beta_1 * m + (1 - self.beta_1) * delta
        square = delta * delta
        if self.server == "adagrad":
            v = v + square
        elif self.server == "adam":
            v = self.beta_2 * v + (1 - self.beta_2) * square
        else:
            v = v - (1 - self.beta_2) * square * torch.sign(v - square)
        return {"x": state.x - self.eta_s * m / (v.sqrt() + self.adaptivity), "server_m": m, "server_v": v}
