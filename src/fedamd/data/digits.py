"""Scikit-learn's handwritten digits, from the file that comes with it."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from fedamd.data.base import Dataset
from fedamd.errors import FedamdError

TEST_SAMPLES = 297


def read_digits() -> Dataset:
    """Scikit-learn's digits; within each class the test samples are spread evenly over the writers."""
    table = torch.from_numpy(_table())
    inputs = table[:, :-1].to(torch.float32).reshape(-1, 1, 8, 8) / 16
    targets = table[:, -1].to(torch.int64)
    by_class = targets.argsort(stable=True)
    test = torch.zeros(len(targets), dtype=torch.bool)
    test[by_class[torch.arange(TEST_SAMPLES) * len(targets) // TEST_SAMPLES]] = True
    mean, std = inputs[~test].mean(), inputs[~test].std()
    inputs = (inputs - mean) / std
    return Dataset("digits", inputs[~test], targets[~test], inputs[test], targets[test], classes=10)


def _table() -> np.ndarray:
    """(1797, 65): 64 grey values from 0 to 16, and the digit. Importing scikit-learn for it would take a second."""
    package = find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise FedamdError("the data set digits comes with scikit-learn: pip install scikit-learn")
    path = Path(package.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    if path.is_file():
        return np.loadtxt(path, delimiter=",")
    from sklearn.datasets import load_digits  # a version that keeps the file elsewhere

    bunch = load_digits()
    return np.column_stack([bunch.data, bunch.target])
