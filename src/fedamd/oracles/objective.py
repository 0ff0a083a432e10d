"""From a model to a function of one flat vector: the objective every oracle computes gradients of.

A model is any `nn.Module`. Its per-sample loss is its own method `loss(outputs, targets) → (B,)` if it has one, else
softmax cross-entropy where the data has classes, else half the squared error.
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from fedamd.errors import FedamdError


class Objective(nn.Module):
    """inputs, targets → per-sample losses and outputs, with the model's parameters as one flat vector."""

    def __init__(self, model: nn.Module, classes: int) -> None:
        super().__init__()
        refuse_hidden_state(model)
        self.model = model
        self.classes = classes
        self._shapes = {f"model.{name}": parameter.shape for name, parameter in model.named_parameters()}
        self._sizes = [shape.numel() for shape in self._shapes.values()]
        self.dimension = sum(self._sizes)
        self.start = flat_parameters(model)

    def forward(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        outputs = self.model(inputs)
        own = getattr(self.model, "loss", None)
        if callable(own):
            return cast(Tensor, own(outputs, targets)), outputs
        if self.classes:
            return F.cross_entropy(outputs, targets, reduction="none"), outputs
        errors = outputs.reshape(targets.shape) - targets  # (B, 1) against (B,) would broadcast to (B, B)
        return 0.5 * errors.square().reshape(len(errors), -1).sum(-1), outputs

    def at(self, x: Tensor, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Per-sample losses and outputs at the flat parameter vector x."""
        result = torch.func.functional_call(self, self._parameters_at(x), (inputs, targets))
        return cast(tuple[Tensor, Tensor], result)

    def weighted_loss(self, x: Tensor, inputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """f(x; B) = Σ_j w_j ℓ(x; z_j)."""
        return (weights * self.at(x, inputs, targets)[0]).sum()

    def correct(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Which samples are classified right; a single output per sample is a logit of class 1."""
        if not self.classes:
            return torch.full(targets.shape[:1], float("nan"), device=outputs.device)
        predicted = outputs.argmax(-1) if outputs.dim() == 2 else (outputs > 0).long()
        return (predicted == targets).to(torch.float32)

    def _parameters_at(self, x: Tensor) -> dict[str, Tensor]:
        pieces = torch.split(x, self._sizes)
        return {name: piece.view(shape) for (name, shape), piece in zip(self._shapes.items(), pieces, strict=True)}


def flat_parameters(model: nn.Module) -> Tensor:
    """The model's parameters as one vector x, in the order of `parameters()`."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def load_parameters(model: nn.Module, x: Tensor) -> None:
    """Put the vector x into the model."""
    nn.utils.vector_to_parameters(x.to(next(model.parameters())), model.parameters())


def refuse_hidden_state(model: nn.Module) -> None:
    """A client is a function of what it is sent: parameters there must be, and no layer with memory or dice."""
    if not any(parameter.numel() for parameter in model.parameters()):
        raise FedamdError(f"the model {type(model).__name__} has no parameters to train")
    for name, layer in model.named_modules():
        if isinstance(layer, _BatchNorm):
            raise FedamdError(
                f"layer '{name}' is a {type(layer).__name__}: its running statistics are not parameters and cannot be "
                f"averaged over clients with different data; use nn.GroupNorm (or LayerNorm) instead"
            )
        if isinstance(layer, _DropoutNd) and layer.p > 0:
            raise FedamdError(
                f"layer '{name}' is a {type(layer).__name__}: its random numbers belong to no address, so a run could "
                "be neither resumed nor repeated; leave it out or set p = 0"
            )
