"""Files and folders that survive a kill and a power cut: whole or not there, on disk before others rely on them.

A file system may keep a rename and lose the bytes of the renamed file, or keep what came later and lose what came
before. Only what was synced is certain: a file's bytes by syncing the file, its name by syncing its folder.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedamd.errors import FedamdError

try:
    import fcntl
except ImportError:  # no locks on this system
    fcntl = None  # type: ignore[assignment]

_PART = re.compile(r"\..+\.\d+\.part")


def refuse_special(path: Path) -> None:
    """A pipe or a device where a file is expected would be waited for without end."""
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "a pipe or a device"
        raise FedamdError(f"{path} is {what}, and a file is expected")


def read_text(path: Path, limit: int | None = None) -> str:
    """The text in a file; whatever keeps it from being read is a `FedamdError`."""
    refuse_special(path)
    try:
        if limit is not None and path.stat().st_size > limit:
            raise FedamdError(f"{path} is larger than {limit >> 20} MB, too large for what it should be")
        return path.read_bytes().decode()
    except OSError as error:
        raise FedamdError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FedamdError(f"cannot read {path}: it is not text in UTF-8") from None


def is_text(word: str) -> bool:
    """Whether a word can be written as UTF-8: the system hands over names in any bytes."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def replacing(path: Path, keep: Path | None = None) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place once it is complete and on disk.

    What stood at `path` before is kept under the name `keep`, if that is given: one of the two is there at any time.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        sync_file(temporary)
        if keep is not None:
            path.replace(keep)
        temporary.replace(path)
        sync_folder(path.parent)
    finally:
        with suppress(OSError):  # what cannot be removed now is debris that the next process removes
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """A text file, atomically; it is on disk when this returns."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def append_line(path: Path, text: str) -> None:
    """A line at the end of a file, on disk when this returns; a line that a crash had cut short goes."""
    new = not path.exists()
    with path.open("ab+") as file:
        file.seek(0)
        whole = file.read().rpartition(b"\n")
        file.truncate(len(whole[0]) + len(whole[1]))
        file.write(text.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    if new:
        sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """The bytes of a file are on disk when this returns."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """The names in a folder are on disk when this returns."""
    if os.name != "nt":  # where folders cannot be opened, and names are journalled in order
        sync_file(path)


def make_folder(path: Path) -> None:
    """A folder and its parents, all of them on disk."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            sync_folder(folder.parent)
    except OSError as error:
        raise FedamdError(f"cannot create {path}: {error.strerror}") from None


@contextmanager
def exclusively(path: Path) -> Iterator[None]:
    """Hold the lock of a folder, which the system takes back however this process ends; a second holder is refused.

    Whatever a process that was killed had begun to write here is removed: nobody else can be writing it now.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FedamdError(f"another process is at work in {path}") from None
        for debris in filter(is_debris, path.iterdir()):
            debris.unlink(missing_ok=True)
        yield
    finally:
        os.close(descriptor)


def is_debris(path: Path) -> bool:
    """Whether this is a file that somebody was writing with `replacing`."""
    return _PART.fullmatch(path.name) is not None
