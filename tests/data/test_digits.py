"""The digits are scikit-learn's, whether its file is read or it is asked."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fedamd.data import digits
from fedamd.errors import FedamdError


def test_the_file_is_what_scikit_learn_gives() -> None:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    assert np.array_equal(digits._table(), np.column_stack([bunch.data, bunch.target]))


def test_without_the_file_scikit_learn_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from_file = digits.read_digits()
    monkeypatch.setattr(Path, "is_file", lambda _: False)
    assert torch.equal(digits.read_digits().inputs, from_file.inputs)


def test_images_keep_their_rows_and_each_digit_its_share() -> None:
    """The first image is a 0, whose first row is 0 0 5 13 9 1 0 0; 297 of 1797 samples are for the test."""
    data = digits.read_digits()
    table = torch.from_numpy(digits._table())
    images = torch.cat([data.inputs, data.test_inputs])
    low, high = images.min(), images.max()
    first = torch.tensor([0, 0, 5, 13, 9, 1, 0, 0]) / 16 * (high - low) + low
    assert any(torch.allclose(image[0, 0], first) for image in images)
    assert len(data.test_targets) == 297
    share = torch.bincount(data.test_targets) / torch.bincount(table[:, -1].long())
    assert torch.allclose(share, torch.full((10,), 297 / 1797), atol=0.01)


def test_without_scikit_learn_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(FedamdError, match="pip install scikit-learn"):
        digits.read_digits()
