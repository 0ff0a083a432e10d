"""Flips and crops of training images: what is done to an image is a function of a word, the same on every device.

The word is the address of the draw (run, round, client, batch, sample), so engines agree and a resumed run continues.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedamd.errors import FedamdError


@dataclass(frozen=True)
class FlipCrop:
    """A random crop of the image with a border of `padding` black pixels, and a mirror image half of the time."""

    black: tuple[float, ...]  # by colour, in the units of the images
    padding: int = 4

    def __call__(self, images: Tensor, words: Tensor) -> Tensor:
        """Images (*n, C, H, W) as their words (*n,), int64, say."""
        # No tensor is made from Python numbers here but by filling: this is captured into CUDA graphs.
        flat, (colours, height, width) = images.flatten(0, -4), images.shape[-3:]
        word = words.flatten()
        rows = torch.arange(height, device=images.device) + self._shift(word, 16)
        mirrored = (word & 1).bool().unsqueeze(1)
        column = torch.arange(width, device=images.device)
        columns = torch.where(mirrored, width - 1 - column, column) + self._shift(word, 32)
        inside = _within(rows, height).unsqueeze(2) & _within(columns, width).unsqueeze(1)  # (n, H, W)
        image = torch.arange(len(flat), device=images.device).view(-1, 1, 1)
        picked = flat[image, :, rows.clamp(0, height - 1).unsqueeze(2), columns.clamp(0, width - 1).unsqueeze(1)]
        black = torch.cat([images.new_full((1,), value) for value in self.black]).expand(colours)
        return torch.where(inside.unsqueeze(-1), picked, black).movedim(-1, 1).reshape(images.shape)

    def _shift(self, words: Tensor, bit: int) -> Tensor:
        """From −padding to padding, (n, 1), by 16 of the word's bits."""
        return ((((words >> bit) & 0xFFFF) * (2 * self.padding + 1)) >> 16).unsqueeze(1) - self.padding


def _within(positions: Tensor, size: int) -> Tensor:
    return (positions >= 0) & (positions < size)


def augmentation(name: str | None, black: tuple[float, ...]) -> FlipCrop | None:
    """The augmentation of that name, for images whose black pixels have these values."""
    if name is None:
        return None
    if name != "flip-crop":
        raise FedamdError(f'augment: there is no {name!r}; the only one is "flip-crop"')
    return FlipCrop(black)
