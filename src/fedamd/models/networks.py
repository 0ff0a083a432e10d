"""The paper's networks, as plain stacks of layers (so that every oracle can read them)."""

from torch import nn


def _after_layers(extent: int) -> int:
    """What two rounds of a 5 × 5 convolution and 2 × 2 pooling leave of a height or width."""
    return ((extent - 4) // 2 - 4) // 2


class LeNet5(nn.Sequential):
    """LeNet-5 as in the paper's appendix: 44,426 parameters for 1 × 28 × 28 images of 10 classes."""

    def __init__(self, channels: int, height: int, width: int, classes: int) -> None:
        flat = 16 * _after_layers(height) * _after_layers(width)
        super().__init__(
            nn.Conv2d(channels, 6, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(flat, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, classes),
        )


class MLP(nn.Sequential):
    """One hidden layer with ReLU: 79,510 parameters for 784 → 100 → 10."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__(nn.Flatten(), nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, classes))


class Softmax(nn.Sequential):
    """Multinomial logistic regression: one linear layer."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(nn.Flatten(), nn.Linear(features, classes))
