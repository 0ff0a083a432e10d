"""A small residual network for tests: `from residual import Residual`."""

import torch
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm = nn.GroupNorm(2, outputs)
        self.relu = nn.ReLU(inplace=True)
        self.again = nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.short = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        return self.relu(self.again(self.relu(self.norm(self.conv(images)))) + self.short(images))


class Residual(nn.Module):
    """From 9×8 images down to 1×1, where only the centre of a 3×3 kernel ever meets the image."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 4, (5, 3), 2, (2, 0))
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.blocks = nn.Sequential(Block(4, 4, 1), Block(4, 6, 2), Block(6, 8, 2))
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.last = nn.Linear(8, 3)

    def forward(self, images: Tensor) -> Tensor:
        return self.last(torch.flatten(self.mean(self.blocks(self.pool(self.stem(images)))), 1))
