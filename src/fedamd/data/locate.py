"""Where the IDX files of a data set lie on this machine, and what those files are called."""

import os
from dataclasses import dataclass
from pathlib import Path

from fedamd.errors import FedamdError

DEBIAN = Path("/usr/share/datasets")  # the Debian package dataset-fashion-mnist puts its files here


@dataclass(frozen=True)
class IdxFiles:
    """The four files of a data set, as paths."""

    train_images: Path
    train_labels: Path
    test_images: Path
    test_labels: Path


@dataclass(frozen=True)
class IdxSet:
    """How the files of one data set are named and stored."""

    name: str
    torchvision: str  # the folder torchvision keeps it in
    prefix: str = ""
    test: str = "t10k"
    transposed: bool = False  # EMNIST stores its images column by column
    labels_sha256: str = ""  # of the training labels' bytes: sets that share file names are told apart by it

    def stems(self) -> tuple[str, ...]:
        """File names up to the `idx` part, in the order of IdxFiles."""
        return tuple(f"{self.prefix}{part}-{kind}" for part in ("train", self.test) for kind in ("images", "labels"))


IDX_SETS = {
    idx.name: idx
    for idx in (
        IdxSet(
            "fashion-mnist",
            "FashionMNIST",
            labels_sha256="657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
        ),
        IdxSet(
            "mnist",
            "MNIST",
            labels_sha256="1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
        ),
        IdxSet("emnist-digits", "EMNIST", prefix="emnist-digits-", test="test", transposed=True),
    )
}


def cache_folder(name: str) -> Path:
    """Where `fetch` puts a data set: $XDG_CACHE_HOME/fedamd/<name>, by default under ~/.cache."""
    return _cache_root() / "fedamd" / name


def folders(name: str) -> list[Path]:
    """Every folder that is searched for an IDX data set, in order."""
    torchvision = [root / IDX_SETS[name].torchvision / "raw" for root in _torchvision_roots()]
    return [*_own_roots(name), *torchvision, DEBIAN / name]


def roots(name: str) -> list[Path]:
    """The folders that may hold a data set, or a folder of it as torchvision has them, in order."""
    return list(dict.fromkeys([*_own_roots(name), *_torchvision_roots()]))


def find(name: str) -> IdxFiles | None:
    """The files in the first folder that has all four, or None."""
    return next((files for folder in folders(name) if (files := _files_in(folder, IDX_SETS[name]))), None)


def _files_in(folder: Path, idx: IdxSet) -> IdxFiles | None:
    found = [_file(folder, stem, 3 if stem.endswith("images") else 1) for stem in idx.stems()]
    paths = [path for path in found if path]
    return IdxFiles(*paths) if len(paths) == len(found) else None


def _file(folder: Path, stem: str, dimensions: int) -> Path | None:
    """Unpackers disagree on `-idx3` or `.idx3`, and on keeping the `.gz`."""
    names = (f"{stem}{mark}idx{dimensions}-ubyte{end}" for mark in "-." for end in ("", ".gz"))
    return next((path for name in names if (path := folder / name).is_file()), None)


def _own_roots(name: str) -> list[Path]:
    given = _data_root()
    return [*([given / name, given] if given else []), cache_folder(name)]


def _torchvision_roots() -> list[Path]:
    """Where people tell torchvision to put its data; it has no default of its own."""
    given = _data_root()
    return [*([given] if given else []), Path("data"), _cache_root() / "torchvision"]


def _cache_root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _data_root() -> Path | None:
    value = os.environ.get("FEDAMD_DATA")
    if not value:
        return None
    if not Path(value).is_dir():
        raise FedamdError(f"the environment variable FEDAMD_DATA names {value}, which is not a folder")
    return Path(value)
