"""Stacks of models without the parameters that cannot matter, each row where matrix products like to find it.

Of a 3×3 kernel on images of 1×1 eight taps only ever meet padding: in ResNet-18 with torchvision's stem on images of
32×32 these are 62 % of all parameters, which local steps need neither read nor write.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from torch import Tensor

from fedamd.oracles.stacked.convolution import Geometry

ALIGNED = 32  # numbers: rows that begin at multiples let products read and write several at once


@dataclass(frozen=True)
class _Part:
    """Some parameters that follow one another: all of their numbers, or the live taps of one convolution's weights."""

    shape: tuple[int, ...]
    crop: Geometry | None

    def of_whole(self, numbers: Tensor) -> Tensor:
        shaped = numbers.view(len(numbers), *self.shape)
        return shaped if self.crop is None else self.crop.cropped(shaped)

    @property
    def live(self) -> tuple[int, ...]:
        """Its shape when packed."""
        return self.shape if self.crop is None else (*self.shape[:2], *self.crop.live_kernel)


class LivePacking:
    """How models with parameters of these shapes are packed, given the convolutions some taps of which are dead."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], crops: Mapping[str, Geometry]) -> None:
        parameters = {name: _Part(tuple(shape), crops.get(name)) for name, shape in shapes.items()}
        self._shapes = {name: part.live for name, part in parameters.items()}
        self._parts: list[_Part] = []
        for crop, together in groupby(parameters.values(), key=lambda part: part.crop):
            parts = list(together)
            count = sum(math.prod(part.shape) for part in parts)
            self._parts += [_Part((count,), None)] if crop is None else parts
        self._numbers = sum(math.prod(part.live) for part in self._parts)
        self.size = -(-self._numbers // ALIGNED) * ALIGNED

    def pack(self, x: Tensor, out: Tensor) -> None:
        """Put models (N, d) into (N, size)."""
        for part, whole, packed in self._pairs(x, out):
            packed.copy_(part.of_whole(whole))

    def unpack(self, packed: Tensor, out: Tensor) -> None:
        """Put what is packed into its places in (N, d); the other places stay as they are."""
        for part, whole, values in self._pairs(out, packed):
            part.of_whole(whole).copy_(values)

    def subtract(self, packed: Tensor, out: Tensor) -> None:
        """Take what is packed off the numbers in its places in (N, d)."""
        for part, whole, values in self._pairs(out, packed):
            part.of_whole(whole).sub_(values)

    def _pairs(self, whole: Tensor, packed: Tensor) -> list[tuple[_Part, Tensor, Tensor]]:
        """Every part with its numbers in a stack, and in the packed one as they are shaped there."""
        wholes = whole.split_with_sizes([math.prod(part.shape) for part in self._parts], 1)
        lives = packed[:, : self._numbers].split_with_sizes([math.prod(part.live) for part in self._parts], 1)
        together = zip(self._parts, wholes, lives, strict=True)
        return [(part, numbers, live.view(len(live), *part.live)) for part, numbers, live in together]

    def parameters(self, packed: Tensor) -> dict[str, Tensor]:
        """Each parameter's live numbers for all models, (N, *shape)."""
        sizes = [math.prod(shape) for shape in self._shapes.values()]
        pieces = packed[:, : self._numbers].split_with_sizes(sizes, 1)
        return {
            name: piece.view(len(packed), *shape)
            for (name, shape), piece in zip(self._shapes.items(), pieces, strict=True)
        }
