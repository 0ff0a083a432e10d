"""Dropout whose masks are addressed: functions of a sample's key, of which use of dropout it is, and of the place.

`nn.Dropout` takes its masks from a generator that nobody else can follow. These are the same on every engine, in
micro-batches and after a resumption, and there are none where no keys are given: in evaluation.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from fedamd import draw
from fedamd.errors import FedamdError

_BY_CHANNEL: tuple[type[_DropoutNd], ...] = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
ADDRESSED: tuple[type[_DropoutNd], ...] = (nn.Dropout, *_BY_CHANNEL)


class Keys:
    """The keys (B,) of the samples that a model is just computed on, and how often it has dropped anything yet."""

    def __init__(self) -> None:
        self._now: Tensor | None = None
        self._uses = 0

    @contextmanager
    def given(self, keys: Tensor | None) -> Iterator[None]:
        """For one pass through the model."""
        self._now, self._uses = keys, 0
        try:
            yield
        finally:
            self._now = None

    def next(self) -> Tensor | None:
        """The keys of the next use of dropout."""
        self._uses += 1
        return None if self._now is None else draw.keys(self._now, self._uses)


class AddressedDropout(nn.Module):
    """Zero with probability p, else 1/(1 − p) times what came in; for whole channels, if that is asked for."""

    def __init__(self, name: str, like: _DropoutNd, keys: Keys) -> None:
        super().__init__()
        self.p = like.p
        self.train(like.training)
        self._name = name
        self._whole_channels = type(like) in _BY_CHANNEL
        self._keys = keys

    def forward(self, values: Tensor) -> Tensor:
        if not self.training:
            return values
        keys = self._keys.next()
        if keys is None:
            raise FedamdError(f"dropout '{self._name}' needs the keys of the batch's samples for its masks")
        if values.dim() < 2 or len(values) != len(keys):
            raise FedamdError(
                f"dropout '{self._name}' is given values of shape {tuple(values.shape)} in a batch of {len(keys)}: "
                "their first axis must be the batch, so that every sample has masks of its own"
            )
        shape = (*values.shape[:2], *[1] * (values.dim() - 2)) if self._whole_channels else values.shape
        kept = draw.uniforms(keys, math.prod(shape[1:]), values.dtype) >= self.p
        return values * kept.view(shape) * (1 / (1 - self.p) if self.p < 1 else 0)


def address_dropout(model: nn.Module) -> Keys | None:
    """Put addressed dropout in the place of every dropout layer that drops anything; None where there is none."""
    keys, found = Keys(), False
    for parent_name, parent in list(model.named_modules()):
        for name, layer in list(parent._modules.items()):
            if isinstance(layer, _DropoutNd) and type(layer) in ADDRESSED and layer.p > 0:
                setattr(parent, name, AddressedDropout(f"{parent_name}.{name}".lstrip("."), layer, keys))
                found = True
    return keys if found else None
