"""Networks for images that the field compares methods on; group normalisation in place of batch normalisation."""

from itertools import pairwise

from torch import Tensor, nn


class CNN(nn.Sequential):
    """Two 5 × 5 convolutions and two linear layers (McMahan et al., AISTATS 2017; LEAF, with 2048 hidden units).

    1,663,370 parameters for 1 × 28 × 28 images of 10 classes; with 2048 hidden units and 62 classes 6,603,710.
    """

    def __init__(self, channels: int, height: int, width: int, classes: int, hidden: int = 512) -> None:
        super().__init__(
            nn.Conv2d(channels, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * (height // 4) * (width // 4), hidden),
            nn.ReLU(),
            nn.Linear(hidden, classes),
        )


class CNNOfPfl(nn.Sequential):
    """The network of pfl-research's CIFAR-10 benchmark: 1,626,442 parameters for 3 × 32 × 32 images of 10 classes."""

    def __init__(self, channels: int, height: int, width: int, classes: int, dropout: bool = True) -> None:
        layers: list[nn.Module | None] = [
            nn.Conv2d(channels, 32, 3),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.25) if dropout else None,
            nn.Flatten(),
            nn.Linear(64 * ((height - 4) // 2) * ((width - 4) // 2), 128),
            nn.ReLU(),
            nn.Dropout(0.5) if dropout else None,
            nn.Linear(128, classes),
        ]
        super().__init__(*(layer for layer in layers if layer is not None))
        for layer in self:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.xavier_uniform_(layer.weight)


class _Block(nn.Module):
    """Two 3 × 3 convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int, groups: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.GroupNorm(groups, outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.GroupNorm(groups, outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(groups, outputs)
            )
        self.relu = nn.ReLU()

    def forward(self, images: Tensor) -> Tensor:
        result: Tensor = self.relu(self.branch(images) + self.shortcut(images))
        return result


class ResNet18(nn.Sequential):
    """ResNet-18 (He et al., CVPR 2016) with GroupNorm, with torchvision's stem or, `small`, one 3 × 3 convolution.

    11,689,512 parameters for 3 channels and 1000 classes; small, with 10 classes, 11,173,962.
    """

    def __init__(self, channels: int, classes: int, groups: int = 2, small: bool = False) -> None:
        if small:
            stem = [nn.Conv2d(channels, 64, 3, padding=1, bias=False), nn.GroupNorm(groups, 64), nn.ReLU()]
        else:
            stem = [nn.Conv2d(channels, 64, 7, 2, padding=3, bias=False), nn.GroupNorm(groups, 64), nn.ReLU()]
            stem.append(nn.MaxPool2d(3, 2, padding=1))
        widths = (64, 64, 128, 256, 512)
        blocks = [
            _Block(before if first else width, width, 2 if first and width > 64 else 1, groups)
            for before, width in pairwise(widths)
            for first in (True, False)
        ]
        super().__init__(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))
        _initialise(self)


class VGG11(nn.Sequential):
    """VGG-11 (Simonyan & Zisserman, ICLR 2015) with GroupNorm and one linear layer, as it is used on CIFAR.

    9,231,114 parameters for 3 channels and 10 classes.
    """

    def __init__(self, channels: int, classes: int, groups: int = 2) -> None:
        layers: list[nn.Module] = []
        for width in (64, None, 128, None, 256, 256, None, 512, 512, None, 512, 512, None):
            if width is None:
                layers.append(nn.MaxPool2d(2))
            else:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.GroupNorm(groups, width), nn.ReLU()]
                channels = width
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))
        _initialise(self)


def _initialise(model: nn.Module) -> None:
    """He's initialisation of convolutions, for outputs of one variance; normalisations start as they are."""
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
