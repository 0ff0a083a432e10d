"""The network."""

from torch import nn

from fedamd import Dataset


def network(dataset: Dataset, hidden: int = 16) -> nn.Module:
    """One hidden layer, as wide as the inputs and the classes of the data ask for."""
    return nn.Sequential(
        nn.Linear(dataset.inputs.shape[1], hidden),
        nn.ReLU(),
        nn.Linear(hidden, dataset.classes),
    )
