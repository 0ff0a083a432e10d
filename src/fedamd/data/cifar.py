"""CIFAR-10 and CIFAR-100, in both layouts they are published in.

Binary: records of one label byte (CIFAR-100: two, coarse and fine) and 3072 bytes of pixels, colour by colour.
Python: pickled dictionaries with `data` and `labels` (`fine_labels`), read without executing them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedamd.data.augment import augmentation
from fedamd.data.base import Dataset
from fedamd.data.files import regular_file
from fedamd.data.locate import roots
from fedamd.data.unpickle import read_plain_pickle
from fedamd.errors import FedamdError

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Layout:
    """Where the samples lie: folder, files, and how one file is read into pixels (n, 3072) and labels (n,)."""

    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    read: Callable[[Path], tuple[Bytes, Bytes]]


@dataclass(frozen=True)
class CifarSet:
    """One of the data sets, with the mean and standard deviation of its training pixels, by colour."""

    name: str
    title: str
    classes: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    layouts: tuple[Layout, ...]
    first_labels: tuple[int, ...] = ()  # of the published training samples: other files are not taken for them
    shares_names: bool = False  # with another set's files: it is looked for in folders of its own name only


def _binary(label_bytes: int) -> Callable[[Path], tuple[Bytes, Bytes]]:
    def read(path: Path) -> tuple[Bytes, Bytes]:
        record = label_bytes + PIXELS
        try:
            content = np.frombuffer(regular_file(path).read_bytes(), dtype=np.uint8)
        except OSError as error:
            raise FedamdError(f"{path} cannot be read: {error.strerror}") from error
        if len(content) == 0 or len(content) % record:
            raise FedamdError(f"{path} is truncated: {len(content)} bytes, not a multiple of {record} (a record)")
        records = content.reshape(-1, record)
        return records[:, label_bytes:], records[:, label_bytes - 1]

    return read


def _pickled(labels_key: str) -> Callable[[Path], tuple[Bytes, Bytes]]:
    def read(path: Path) -> tuple[Bytes, Bytes]:
        found = read_plain_pickle(regular_file(path))
        pixels, labels = found.get("data"), found.get(labels_key)
        if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != PIXELS or len(pixels) == 0:
            raise FedamdError(f"{path} has no array `data` of {PIXELS} bytes a sample")
        if not isinstance(labels, list) or len(labels) != len(pixels) or not all(map(_is_byte, labels)):
            raise FedamdError(f"{path} has no list `{labels_key}` with a label for each of its {len(pixels)} samples")
        return pixels, np.array(labels, dtype=np.uint8)

    return read


def _is_byte(value: object) -> bool:
    return type(value) is int and 0 <= value <= 255


_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
_BINARY_10 = Layout(
    "cifar-10-batches-bin", tuple(f"{batch}.bin" for batch in _BATCHES), ("test_batch.bin",), _binary(1)
)
CIFAR_SETS = {
    cifar.name: cifar
    for cifar in (
        CifarSet(
            "cifar-10",
            "CIFAR-10",
            10,
            (0.4914, 0.4822, 0.4465),
            (0.2470, 0.2435, 0.2616),
            (_BINARY_10, Layout("cifar-10-batches-py", _BATCHES, ("test_batch",), _pickled("labels"))),
            first_labels=(6, 9, 9, 4, 1, 1, 2, 7, 8, 3),
        ),
        CifarSet(
            "cifar-10-jpeg",
            "CIFAR-10 (JPEG)",
            10,
            (0.4914, 0.4822, 0.4465),
            (0.2470, 0.2435, 0.2616),
            (_BINARY_10,),
            shares_names=True,
        ),
        CifarSet(
            "cifar-100",
            "CIFAR-100",
            100,
            (0.5071, 0.4865, 0.4409),
            (0.2673, 0.2564, 0.2762),
            (
                Layout("cifar-100-binary", ("train.bin",), ("test.bin",), _binary(2)),
                Layout("cifar-100-python", ("train",), ("test",), _pickled("fine_labels")),
            ),
        ),
    )
}


def folders(name: str, path: str | Path | None = None) -> list[Path]:
    """Every folder that is searched, in order: the one given alone, or the usual ones."""
    cifar = CIFAR_SETS[name]
    tops = [top for top in roots(name) if top.name == name or not cifar.shares_names] if path is None else [Path(path)]
    return [folder for top in tops for folder in (*(top / layout.folder for layout in cifar.layouts), top)]


def find(name: str, path: str | Path | None = None) -> tuple[Path, Layout] | None:
    """The first folder that has all files of one layout, and the layout."""
    for folder in folders(name, path):
        for layout in CIFAR_SETS[name].layouts:
            if all((folder / file).is_file() for file in (*layout.train, *layout.test)):
                return folder, layout
    return None


def read_cifar(
    name: str,
    obtain: str,
    path: str | None = None,  # a folder that has the files; else they are looked for
    augment: str | None = None,  # "flip-crop": pictures are flipped and shifted anew whenever they are drawn
) -> Dataset:
    """The data set, each colour with mean 0 and standard deviation 1; `path` is a folder that has its files.

    augment = "flip-crop" trains on random crops with a border of 4 black pixels, mirrored half of the time.
    """
    cifar, found = CIFAR_SETS[name], find(name, path)
    if found is None:
        looked = "".join(f"\n  {folder}" for folder in folders(name, path))
        raise FedamdError(f"the files of {name} were not found. To get them: {obtain}. Looked in:{looked}")
    folder, layout = found
    train = _samples(cifar, layout, folder, layout.train)
    first = tuple(train[1][: len(cifar.first_labels)].tolist())
    if first != cifar.first_labels:
        raise FedamdError(
            f"{folder} does not hold the published {cifar.title}: its first labels are {first}, not "
            f"{cifar.first_labels}; recompressed images are the data set cifar-10-jpeg"
        )
    test = _samples(cifar, layout, folder, layout.test)
    black = tuple(-mean / std for mean, std in zip(cifar.mean, cifar.std, strict=True))
    return Dataset(cifar.title, *train, *test, classes=cifar.classes, augment=augmentation(augment, black))


def _samples(cifar: CifarSet, layout: Layout, folder: Path, files: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    parts = []
    for file in files:
        pixels, labels = layout.read(folder / file)
        if labels.max() >= cifar.classes:
            raise FedamdError(
                f"{folder / file} holds the label {labels.max()}; {cifar.name} has 0 to {cifar.classes - 1}"
            )
        parts.append((pixels, labels))
        if len(labels) < len(parts[0][1]):  # all files of a set are of one length
            raise FedamdError(
                f"{folder / file} is truncated: {len(labels)} samples, where {files[0]} has {len(parts[0][1])}"
            )
    pixels = np.concatenate([pixels for pixels, _ in parts])
    images = torch.from_numpy(pixels.reshape(-1, *SHAPE)).float().div_(255)
    images.sub_(torch.tensor(cifar.mean).view(3, 1, 1)).div_(torch.tensor(cifar.std).view(3, 1, 1))
    return images, torch.from_numpy(np.concatenate([labels for _, labels in parts]).astype(np.int64))
