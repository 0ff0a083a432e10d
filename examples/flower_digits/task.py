"""What this federation trains: a small network on handwritten digits. Replace the two readers by your own files."""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from fedamd.flower.app.task import FederatedTask
from fedamd.runs.config import Config


def task(config: Config) -> FederatedTask:
    """Called by the server and by every client, each on its own machine."""
    return FederatedTask(
        model=lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)),
        local_data=lambda client: local_data(client, config.clients),
        test_data=test_data,
        classes=10,
    )


def local_data(client: int, clients: int) -> tuple[Tensor, Tensor]:
    """What this client has: here its share of the digits, with its own handwriting (contrast)."""
    images, labels = digits()
    mine = slice(client, 1500, clients)
    return images[mine] * (1 + 0.2 * client), labels[mine]


def test_data() -> tuple[Tensor, Tensor]:
    """What the server measures the model on."""
    images, labels = digits()
    return images[1500:], labels[1500:]


def digits() -> tuple[Tensor, Tensor]:
    """1,797 images of 8 × 8 pixels that come with scikit-learn."""
    data = load_digits()
    return torch.from_numpy(data.images).float() / 16, torch.from_numpy(data.target).long()
