"""From a model to a function of one flat vector: the objective every oracle computes gradients of.

A model is any `nn.Module`; x is its trainable parameters, and everything else in it is a constant. Its per-sample loss
is its own method `loss(outputs, targets) → (B,)` if it has one, else cross-entropy where the data has classes (softmax
over the last axis of the outputs; of a single output, the logit of class 1), else half the squared error. Targets are
one label a sample (B,), or one a token (B, T): then a sample's loss is the mean over its tokens that are not −100.
"""

import logging
from copy import deepcopy
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedamd.errors import FedamdError, at_work
from fedamd.metrics import predicted_classes
from fedamd.oracles.dropout import Keys, address_dropout
from fedamd.oracles.hidden_state import refuse_hidden_state

log = logging.getLogger("fedamd")
IGNORED = -100  # as a target: there is nothing to predict


class Objective(nn.Module):
    """inputs, targets → per-sample losses and outputs, with the model's trainable parameters as one flat vector."""

    def __init__(self, model: nn.Module, classes: int) -> None:
        super().__init__()
        refuse_hidden_state(model)
        self.model = _twin(model)
        self.classes = classes
        self.start = flat_parameters(model)
        self.dimension = self.start.numel()
        self._shapes = {f"model.{name}": parameter.shape for name, parameter in trainable(model).items()}
        self._sizes = [shape.numel() for shape in self._shapes.values()]
        self._keys = address_dropout(self.model)
        # modules that the user put into evaluation mode inside a model in training mode stay there
        self._switched = [module for module in self.model.modules() if module.training or not model.training]
        self._moving: dict[str, Tensor] = {}  # buffers that a pass changes, as they were

    @property
    def keyed(self) -> bool:
        """Whether training needs the samples' keys."""
        return self._keys is not None

    def forward(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        outputs = self.model(inputs)
        return self._losses(outputs, targets), outputs

    def at(
        self, x: Tensor, inputs: Tensor, targets: Tensor, keys: Tensor | None = None, training: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Per-sample losses and outputs at the flat parameter vector x."""
        for module in self._switched if self._switched[0].training != training else ():
            module.training = training
        values = self._parameters_at(x)
        if self._moving:
            values |= {name: buffer.clone() for name, buffer in self._moving.items()}
        with (self._keys or Keys()).given(keys):
            result = torch.func.functional_call(self, values, (inputs, targets))
        return cast(tuple[Tensor, Tensor], result)

    def weighted_loss(
        self, x: Tensor, inputs: Tensor, targets: Tensor, weights: Tensor, keys: Tensor | None = None
    ) -> Tensor:
        """f(x; B) = Σ_j w_j ℓ(x; z_j), as in training."""
        return (weights * self.at(x, inputs, targets, keys, training=True)[0]).sum()

    def right(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """How many targets are predicted right, and how many there are; 0 of 0 where there are no classes."""
        if not self.classes:
            return outputs.new_zeros(()), outputs.new_zeros(())
        real = targets != IGNORED
        return ((predicted_classes(outputs, targets) == targets) & real).sum(), real.sum()

    def _losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        own = getattr(self.model, "loss", None)
        if callable(own):
            return cast(Tensor, own(outputs, targets))
        if not self.classes:
            errors = outputs.reshape(targets.shape) - targets  # (B, 1) against (B,) would broadcast to (B, B)
            return 0.5 * errors.square().reshape(len(errors), -1).sum(-1)
        return _mean_over_tokens(self._cross_entropy(outputs, targets), targets)

    def _cross_entropy(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Of every target; 0 where it is to be ignored."""
        if outputs.shape in (targets.shape, (*targets.shape, 1)):
            if self.classes != 2:
                raise FedamdError(f"the model gives one output, a logit, where the data have {self.classes} classes")
            labels = (targets == 1).to(outputs.dtype)
            losses = F.binary_cross_entropy_with_logits(outputs.reshape(targets.shape), labels, reduction="none")
            return losses * (targets != IGNORED)
        if outputs.shape[:-1] != targets.shape:
            raise FedamdError(
                f"the model gives outputs of shape {tuple(outputs.shape)} for targets of shape {tuple(targets.shape)}: "
                f"it must give {(*targets.shape, self.classes)}, the scores of the classes in the last axis"
            )
        flat = F.cross_entropy(
            outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1), ignore_index=IGNORED, reduction="none"
        )
        return flat.view(targets.shape)

    def _parameters_at(self, x: Tensor) -> dict[str, Tensor]:
        pieces = torch.split(x, self._sizes)
        return {name: piece.view(shape) for (name, shape), piece in zip(self._shapes.items(), pieces, strict=True)}

    def rehearse(self, inputs: Tensor, targets: Tensor) -> None:
        """One pass in training mode: what would go wrong is said in words, and buffers that change are found."""
        before = {name: (buffer, buffer.clone(), buffer._version) for name, buffer in self.named_buffers()}
        keys = torch.zeros(len(inputs), dtype=torch.int64, device=inputs.device) if self.keyed else None
        devices = [inputs.device] if inputs.is_cuda else []
        with torch.random.fork_rng(devices):
            states = _random_states(devices)
            shapes = f"inputs of shape {tuple(inputs.shape)} and targets of shape {tuple(targets.shape)}"
            with at_work(f"the model {type(self.model).__name__} fails on {shapes}"):
                losses, _ = self.at(self.start, inputs, targets, keys, training=True)
            if any(not torch.equal(one, other) for one, other in zip(states, _random_states(devices), strict=True)):
                raise FedamdError(
                    f"the model {type(self.model).__name__} draws random numbers when it runs: they belong to no "
                    "address, so a run could be neither resumed nor repeated; use nn.Dropout layers, not F.dropout"
                )
        if not isinstance(losses, Tensor) or losses.shape != inputs.shape[:1]:
            gave = f"the shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else f"a {type(losses).__name__}"
            raise FedamdError(
                f"the loss of the model {type(self.model).__name__} has {gave} for a batch of {len(inputs)} samples: "
                f'it must be one number a sample, ({len(inputs)},), as with reduction="none"'
            )
        self._restore(before)

    def _restore(self, before: dict[str, tuple[Tensor, Tensor, int]]) -> None:
        """Buffers are constants: one that a pass changes starts every pass anew from what it was."""
        after = dict(self.named_buffers())
        for name, (buffer, value, version) in before.items():
            if after.get(name) is not buffer or buffer._version != version:
                buffer.copy_(value)
                owner, _, own = name.rpartition(".")
                setattr(self.get_submodule(owner), own, buffer)
                self._moving[name] = value
                log.warning("the buffer %s changes when the model runs; here it stays what it was", name[6:])


def _mean_over_tokens(losses: Tensor, targets: Tensor) -> Tensor:
    """One loss a sample."""
    if targets.dim() == 1:
        return losses
    return losses.flatten(1).sum(1) / (targets != IGNORED).flatten(1).sum(1).clamp(min=1)


def _random_states(devices: list[torch.device]) -> list[Tensor]:
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in devices)]


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that x consists of, by name, in its order."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def flat_parameters(model: nn.Module) -> Tensor:
    """The model's trainable parameters as one vector x, in the order of `parameters()`."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in trainable(model).values()])


@torch.no_grad()
def load_parameters(model: nn.Module, x: Tensor) -> None:
    """Put the vector x into the model."""
    parameters = trainable(model).values()
    pieces = torch.split(x, [parameter.numel() for parameter in parameters])
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.copy_(piece.view_as(parameter))


def own_copy(model: nn.Module) -> nn.Module:
    """A copy that shares nothing with the model: for training, which must leave the user's object as it is."""
    derived = {id(value): value.detach().clone() for value in _attributes(model) if not value.is_leaf}
    return _copied(model, derived)


def _twin(model: nn.Module) -> nn.Module:
    """A copy that shares every tensor with the model: what a pass leaves on its modules does not reach the model."""
    tensors = (*model.parameters(), *model.buffers(), *_attributes(model))
    return _copied(model, {id(tensor): tensor for tensor in tensors})


def _attributes(model: nn.Module) -> list[Tensor]:
    """Tensors that are neither parameters nor buffers, such as a weight that a hook derives from others."""
    return [value for module in model.modules() for value in vars(module).values() if isinstance(value, Tensor)]


def _copied(model: nn.Module, known: dict[int, Tensor]) -> nn.Module:
    try:
        return deepcopy(model, cast(dict[int, object], known))
    except Exception as error:
        raise FedamdError(f"the model {type(model).__name__} cannot be copied: {error}") from error
