"""pfl-research's CIFAR-10 workload on pfl itself: `python run_pfl_cifar.py DATA ROUNDS RESULT`.

1000 clients × 50 samples, 50 a round, one epoch in batches of 10, its network with dropout, no evaluation. DATA has
arrays x and y of all clients.
"""

import json
import sys
import time
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import nn

data, rounds, result = sys.argv[1], int(sys.argv[2]), sys.argv[3]
ends: list[float] = []


class Net(nn.Module):
    """Its network, with the two methods pfl asks for."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, 3),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.25),
            nn.Flatten(),
            nn.Linear(64 * 14 * 14, 128),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(128, 10),
        )

    def loss(self, images, labels):
        self.layers.train()
        return F.cross_entropy(self.layers(images), labels)

    @torch.no_grad()
    def metrics(self, images, labels):  # noqa: ARG002  nothing is evaluated
        return {}


class Clock(TrainingProcessCallback):
    """Notes the end of every round."""

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):  # noqa: ARG002
        ends.append(time.perf_counter())
        return False, Metrics()


with np.load(data) as arrays:
    images, labels = (torch.from_numpy(arrays[name]) for name in ("x", "y"))
users = dict(enumerate(zip(images, labels, strict=True)))
net = Net()
federated = FederatedDataset.from_slices(users, get_user_sampler("minimize_reuse", list(users)))
FederatedAveraging().run(
    NNAlgorithmParams(
        central_num_iterations=rounds + 1, evaluation_frequency=rounds + 2, train_cohort_size=50, val_cohort_size=0
    ),
    SimulatedBackend(federated, federated),
    PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0)),
    NNTrainHyperParams(local_num_epochs=1, local_learning_rate=0.1, local_batch_size=10),
    callbacks=[Clock()],
    send_metrics_to_platform=False,
)
seconds = [after - before for before, after in pairwise(ends)]
Path(result).write_text(json.dumps({"version": version("pfl"), "seconds": seconds}))
