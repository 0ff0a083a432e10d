"""The data sets fedamd knows by name: `load("fashion-mnist")` gives one as tensors."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from fedamd.data import cifar
from fedamd.data.assemble import dataset_of
from fedamd.data.base import Dataset
from fedamd.data.checks import check
from fedamd.data.cifar import CIFAR_SETS
from fedamd.data.digits import TEST_SAMPLES as DIGITS_TEST
from fedamd.data.digits import read_digits
from fedamd.data.idx import read_labelled
from fedamd.data.leaf import read_leaf
from fedamd.data.locate import IDX_SETS, find, folders
from fedamd.data.pictures import read_pictures
from fedamd.data.synthetic import logistic, quadratic
from fedamd.errors import FedamdError, at_work
from fedamd.registry import Registry, check_options

MEAN, STD = 0.1307, 0.3081  # MNIST's; the paper normalises all its images with them


@dataclass(frozen=True)
class Source:
    """What a named data set is, and how to get it; sizes are None where the options of `read` decide."""

    description: str
    shape: tuple[int, ...] | None  # of one input
    classes: int
    train: int | None
    test: int | None
    obtain: str
    read: Callable[..., Dataset]
    embedded: bool = False  # comes with fedamd or what it needs


def load(name: str, **options: Any) -> Dataset:
    """The data set of that name, or what the user's "package.module:function" returns, made with these options."""
    source = SOURCES.find(name, "data.name")
    check_options(f"the data set {name}", source.read, options)
    with at_work(f"the data set {name} cannot be made") if ":" in name else nullcontext():
        data = source.read(**options)
    if not isinstance(data, Dataset):
        raise FedamdError(f"data.name: {name} returned a {type(data).__name__}, not a fedamd.Dataset")
    return check(data)


def where(name: str) -> Path | None:
    """The folder the files of a data set were found in; None where none were found, or none are needed."""
    SOURCES.find(name, "data.name")
    if name in CIFAR_SETS:
        found = cifar.find(name)
        return found[0] if found else None
    files = find(name) if name in IDX_SETS else None
    return files.train_images.parent if files else None


def _read_images(name: str) -> Dataset:
    files = find(name)
    if files is None:
        looked = "".join(f"\n  {folder}" for folder in folders(name))
        raise FedamdError(
            f"the files of {name} were not found. To get them: {SOURCES[name].obtain}. Looked in:{looked}"
        )
    train = _images(name, files.train_images, files.train_labels)
    _refuse_namesake(name, train[1], files.train_labels)
    return Dataset(name, *train, *_images(name, files.test_images, files.test_labels), classes=SOURCES[name].classes)


def _images(name: str, images_path: Path, labels_path: Path) -> tuple[Tensor, Tensor]:
    images, labels = read_labelled(images_path, labels_path)
    source = SOURCES[name]
    if images.shape[1:] != (28, 28):
        raise FedamdError(f"{images_path} holds images of {tuple(images.shape[1:])} pixels; {name} has (28, 28)")
    if labels.max() >= source.classes:
        raise FedamdError(f"{labels_path} holds the label {labels.max()}; {name} has 0 to {source.classes - 1}")
    if IDX_SETS[name].transposed:
        images = images.transpose(1, 2).contiguous()
    return images.unsqueeze(1).float().div_(255).sub_(MEAN).div_(STD), labels.long()


def _refuse_namesake(name: str, labels: Tensor, path: Path) -> None:
    """MNIST and Fashion-MNIST have the same file names: a folder of one must not pass for the other."""
    digest = hashlib.sha256(labels.byte().numpy().tobytes()).hexdigest()
    for other in IDX_SETS.values():
        if other.name != name and digest == other.labels_sha256:
            raise FedamdError(
                f"{path} belongs to {other.name}, not to {name}; put each set in a folder of its own name"
            )


def _idx(name: str, description: str, train: int, test: int, obtain: str = "") -> Source:
    ways = f"run `fedamd data fetch {name}`{obtain}, or set FEDAMD_DATA to a folder that has them"
    return Source(description, (1, 28, 28), 10, train, test, ways, partial(_read_images, name))


def _cifar(name: str, train: int = 50_000, test: int = 10_000) -> Source:
    one = CIFAR_SETS[name]
    ways = f"run `fedamd data fetch {name}`, or give path, a folder that has {one.layouts[0].folder}"
    if one.shares_names:
        ways = f"put {one.layouts[0].folder} into a folder {name} under FEDAMD_DATA, or give path"
    description = f"32×32 colour photographs of {one.classes} kinds: {one.title}"
    return Source(description, cifar.SHAPE, one.classes, train, test, ways, partial(cifar.read_cifar, name, ways))


def _read_csv(
    path: str,  # the file the data is in
    target: str,  # the column to predict
    client: str | None = None,  # the column that says whose sample it is; else a partition deals the samples out
    columns: Sequence[str] | None = None,  # the columns that are inputs; all others by default
    test_path: str | None = None,  # a file of test samples
    test_share: float | None = None,  # of every client's samples, kept for the test where no test samples are given
    classes: int | None = None,  # how many there are, where not all labels occur; 0: whole numbers are to be predicted
) -> Dataset:
    """A CSV file: see `assemble.dataset_of`."""
    return dataset_of(
        _ending(path, ".csv"),
        target=target,
        client=client,
        columns=columns,
        test=test_path,
        test_share=test_share,
        classes=classes,
        name=Path(path).stem,
    )


def _read_npz(
    path: str,  # the file the data is in
    test_share: float | None = None,  # of every client's samples, kept for the test where no test samples are given
    classes: int | None = None,  # how many there are, where not all labels occur
    tokens: bool = False,  # whole numbers among the inputs are tokens, and stay whole
) -> Dataset:
    """An NPZ file: see `files.read_npz`."""
    named = Path(path).stem
    return dataset_of(_ending(path, ".npz"), test_share=test_share, classes=classes, tokens=tokens, name=named)


def _ending(path: str, ending: str) -> str:
    if not path.endswith(ending):
        raise FedamdError(f"data.path: {path} is not a {ending} file")
    return path


_OURS: dict[str, Source] = {
    "digits": Source(
        "8×8 handwritten digits", (1, 8, 8), 10, 1500, DIGITS_TEST, "comes with scikit-learn", read_digits, True
    ),
    "fashion-mnist": _idx(
        "fashion-mnist",
        "28×28 articles of clothing (the paper's Table 2)",
        60_000,
        10_000,
        ", or install the Debian package dataset-fashion-mnist",
    ),
    "mnist": _idx("mnist", "28×28 handwritten digits", 60_000, 10_000),
    "emnist-digits": _idx(
        "emnist-digits", "28×28 handwritten digits, extended (the paper's last figure)", 240_000, 40_000
    ),
    "cifar-10": _cifar("cifar-10"),
    "cifar-10-jpeg": _cifar("cifar-10-jpeg"),
    "cifar-100": _cifar("cifar-100"),
    "femnist": Source(
        "28×28 handwritten characters by writer, as LEAF's JSON files",
        (1, 28, 28),
        62,
        None,
        None,
        "made by LEAF (preprocess.sh in its femnist folder); give path, a folder with its train and test",
        partial(read_leaf, shape=(1, 28, 28), classes=62, name="femnist"),
    ),
    "leaf": Source("any data set of numbers as LEAF's JSON files", None, 0, None, None, "give path", read_leaf),
    "csv": Source("your table: path, target, client", None, 0, None, None, "give path and target", _read_csv),
    "npz": Source("your arrays: inputs, targets, clients", None, 0, None, None, "give path", _read_npz),
    "pictures": Source("your pictures in folders named for classes", None, 0, None, None, "give path", read_pictures),
    "quadratic": Source("quadratic problem with known constants", None, 0, None, None, "computed", quadratic, True),
    "logistic": Source(
        "regularised logistic regression with known constants", None, 2, None, None, "computed", logistic, True
    ),
}


def _adopted(name: str, found: Any) -> Source:
    """A user's own function that returns a Dataset; one that has parameters `clients` or `seed` is given the run's."""
    if not callable(found):
        raise FedamdError(f"{name} is a {type(found).__name__}, not a function that returns a fedamd.Dataset")
    return Source(next(iter((found.__doc__ or name).splitlines())), None, 0, None, None, "your own", found)


SOURCES: Registry[Source] = Registry("data set", _OURS, _adopted)
