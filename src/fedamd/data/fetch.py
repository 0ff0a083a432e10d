"""Downloads the image data sets: every file is checked against a published hash, and appears whole or not at all.

The SHA-256 values are those of the original gzip files, as several independent projects publish them. The MD5s that
torchvision publishes belong to the same files.
"""

import hashlib
import os
import shutil
import tarfile
import urllib.request
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO
from urllib.error import HTTPError

from fedamd.data.locate import cache_folder
from fedamd.errors import FedamdError
from fedamd.registry import choose

TIMEOUT = 30.0  # seconds without an answer
BLOCK = 1 << 20


@dataclass(frozen=True)
class Remote:
    """Files to download from any of the mirrors; `members` are the parts to keep where the file is an archive."""

    mirrors: tuple[str, ...]
    sha256: dict[str, str]  # by file name
    members: tuple[str, ...] = ()

    @property
    def wanted(self) -> list[str]:
        """The names of the files the data set consists of in the end."""
        return [Path(member).name for member in self.members] or list(self.sha256)


_TORONTO = ("https://www.cs.toronto.edu/~kriz/",)
REMOTES = {
    "fashion-mnist": Remote(
        mirrors=(
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
        sha256={
            "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        },
    ),
    "mnist": Remote(
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        sha256={
            "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
    ),
    "emnist-digits": Remote(
        mirrors=("https://biometrics.nist.gov/cs_links/EMNIST/",),
        sha256={"gzip.zip": "fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e"},
        members=(
            "gzip/emnist-digits-train-images-idx3-ubyte.gz",
            "gzip/emnist-digits-train-labels-idx1-ubyte.gz",
            "gzip/emnist-digits-test-images-idx3-ubyte.gz",
            "gzip/emnist-digits-test-labels-idx1-ubyte.gz",
        ),
    ),
    "cifar-10": Remote(
        mirrors=_TORONTO,
        sha256={"cifar-10-binary.tar.gz": "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
        members=tuple(
            f"cifar-10-batches-bin/{name}.bin" for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
        ),
    ),
    "cifar-100": Remote(
        mirrors=_TORONTO,
        sha256={"cifar-100-binary.tar.gz": "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"},
        members=("cifar-100-binary/train.bin", "cifar-100-binary/test.bin"),
    ),
}


def fetch(name: str, folder: Path | None = None) -> Path:
    """Downloads a data set, by default into the user's cache where `load` finds it; returns the folder."""
    remote = choose(REMOTES, name, "fetch")
    target = folder or cache_folder(name)
    try:
        target.mkdir(parents=True, exist_ok=True)
        for file, sha256 in remote.sha256.items():
            if not _present(target, remote, file, sha256):
                with _download(remote, file, sha256, target) as temporary:
                    _keep(temporary, target, remote, file)
    except OSError as error:
        raise FedamdError(f"{name} cannot be written to {target}: {error.strerror or error}") from error
    return target


def _present(target: Path, remote: Remote, file: str, sha256: str) -> bool:
    """Archive members have no published hash: they are trusted to come from a checked archive."""
    if remote.members:
        return all((target / wanted).is_file() for wanted in remote.wanted)
    return (target / file).is_file() and _digest(target / file) == sha256


def _keep(temporary: Path, target: Path, remote: Remote, file: str) -> None:
    if not remote.members:
        os.replace(temporary, target / file)
        return
    with _opened(temporary) as member_of:
        for member, wanted in zip(remote.members, remote.wanted, strict=True):
            with member_of(member) as source, _temporary(target) as (part, sink):
                shutil.copyfileobj(source, sink, BLOCK)
                sink.close()
                os.replace(part, target / wanted)


@contextmanager
def _opened(path: Path) -> Iterator[Callable[[str], IO[bytes]]]:
    """How to read a member of a zip or tar archive; nothing is written where the archive wants it."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as zipped:
            yield zipped.open
        return
    with tarfile.open(path) as tar:

        def member_of(name: str) -> IO[bytes]:
            member = tar.extractfile(name)
            if member is None:
                raise FedamdError(f"{name} is not a file in its archive")
            return member

        yield member_of


@contextmanager
def _download(remote: Remote, file: str, sha256: str, target: Path) -> Iterator[Path]:
    """The checked file, under a temporary name that is gone afterwards."""
    failures = []
    for mirror in remote.mirrors:
        with _temporary(target) as (path, sink):
            failure = _try_mirror(mirror + file, sink, sha256, path)
            if failure is None:
                yield path
                return
            failures.append(f"\n  {mirror + file}: {failure}")
    raise FedamdError(
        f"{file} could not be downloaded:{''.join(failures)}\n"
        f"By hand: get the file with any other means, check that its SHA-256 is {sha256}, and put "
        f"{', '.join(remote.wanted)} into {target}"
    )


def _try_mirror(url: str, sink: IO[bytes], sha256: str, path: Path) -> str | None:
    """Why the mirror failed, or None."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            shutil.copyfileobj(answer, sink, BLOCK)
    except HTTPError as error:
        with error:  # it is the server's answer, too, and must be closed
            return str(error)
    except (OSError, HTTPException) as error:  # URLError and timeouts are OSErrors
        return str(error) or type(error).__name__
    sink.close()
    found = _digest(path)
    return None if found == sha256 else f"{path.stat().st_size} bytes with SHA-256 {found}, not {sha256}"


@contextmanager
def _temporary(folder: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """A file beside its final place, so that os.replace is atomic; removed unless it was moved away."""
    path = folder / f".fetch-{uuid.uuid4().hex}"
    try:
        with path.open("xb") as sink:
            yield path, sink
    finally:
        path.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
