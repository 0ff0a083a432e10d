"""What the tests of the data package share: an IDX writer, a small labelled data set, a machine without data sets."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fedamd.data import Dataset, locate


def idx_bytes(values: Tensor) -> bytes:
    """A uint8 tensor in the IDX format."""
    return struct.pack(f">HBB{values.dim()}I", 0, 8, values.dim(), *values.shape) + values.numpy().tobytes()


@pytest.fixture
def write_idx() -> Callable[[Path, Tensor], Path]:
    def write(path: Path, values: Tensor) -> Path:
        content = idx_bytes(values)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        return path

    return write


@pytest.fixture
def labelled() -> Callable[..., Dataset]:
    """A data set with the given number of samples of each class, in class order."""

    def make(*counts: int) -> Dataset:
        targets = torch.cat([torch.full((count,), label) for label, count in enumerate(counts)])
        inputs = torch.arange(len(targets), dtype=torch.float32).unsqueeze(1)
        return Dataset("toy", inputs, targets, inputs[:1], targets[:1], classes=len(counts))

    return make


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without data sets, with FEDAMD_DATA set to an empty folder, which is returned."""
    for name in ("data", "cache", "home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("FEDAMD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(locate, "DEBIAN", tmp_path / "debian")
    return tmp_path / "data"
