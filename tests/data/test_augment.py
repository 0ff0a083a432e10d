"""Flips and crops, pixel by pixel."""

import pytest
import torch

from fedamd import draw
from fedamd.data.augment import FlipCrop
from fedamd.draw import Purpose

BLACK = -9.0


def word(mirror: int, down: int, right: int, padding: int) -> int:
    """The smallest word that shifts by so many pixels: the s-th of 2·padding + 1 equal parts of 2^16."""
    parts = 2 * padding + 1

    def part(shift: int) -> int:
        return -(-((shift + padding) << 16) // parts)

    return mirror | part(down) << 16 | part(right) << 32


def by_hand(image: torch.Tensor, mirror: int, down: int, right: int) -> torch.Tensor:
    _, height, width = image.shape
    expected = torch.full_like(image, BLACK)
    for row in range(height):
        for column in range(width):
            from_row, from_column = row + down, (width - 1 - column if mirror else column) + right
            if 0 <= from_row < height and 0 <= from_column < width:
                expected[:, row, column] = image[:, from_row, from_column]
    return expected


@pytest.mark.parametrize("mirror", [0, 1])
@pytest.mark.parametrize(("down", "right"), [(0, 0), (1, -1), (-2, 2), (2, 0)])
def test_pixels(mirror, down, right):
    images = torch.arange(2 * 3 * 4 * 5, dtype=torch.float32).reshape(2, 3, 4, 5)
    words = torch.tensor([word(mirror, down, right, 2), word(0, 0, 0, 2)])
    found = FlipCrop((BLACK,) * 3, padding=2)(images, words)
    assert torch.equal(found[0], by_hand(images[0], mirror, down, right))
    assert torch.equal(found[1], images[1])


def test_a_stack_is_each_of_its_images():
    images = torch.randn(2, 3, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    key = draw.words([draw.bits(0, Purpose.BATCH, 1)], torch.device("cpu"))
    words = draw.keys(key, torch.arange(6).reshape(2, 3))
    augment = FlipCrop((BLACK,) * 3)
    found = augment(images, words)
    assert found.shape == images.shape
    for row in range(2):
        assert torch.equal(found[row], augment(images[row], words[row]))


def test_every_crop_and_flip_is_as_likely_as_any_other():
    """162 ways (2 × 9 × 9) among 16,200 words: each 100 times on average, 60 to 150 within 5 standard deviations."""
    positions = torch.arange(81.0).reshape(1, 1, 9, 9).expand(16_200, 1, 9, 9)
    words = draw.keys(draw.words([draw.bits(0, Purpose.BATCH, 0)], torch.device("cpu")), torch.arange(16_200))
    found = FlipCrop((BLACK,))(positions, words)
    ways = torch.stack([found[:, 0, 4, 3], found[:, 0, 4, 5]], 1)  # never black: the shift is at most 4
    _, counts = ways.unique(dim=0, return_counts=True)
    assert len(counts) == 162
    assert counts.min() > 60
    assert counts.max() < 150
