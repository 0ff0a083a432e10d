"""Checkpoints: one safetensors file, tensors and in its header the rest as JSON. Loading one can run no code."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fedamd.errors import FedamdError

_FORMAT = "fedamd checkpoint 1"


def save(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write both, atomically: after a crash the file is the old one or the new one, whole."""
    apart: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        if own.untyped_storage().data_ptr() in storages:  # the format refuses tensors that share memory
            own = own.clone()
        storages.add(own.untyped_storage().data_ptr())
        apart[name] = own
    with replacing(path) as temporary:
        save_file(apart, temporary, metadata={_FORMAT: json.dumps(facts)})  # one entry: several have no fixed order


def load(path: Path, device: str = "cpu") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the facts; a file that is not a whole checkpoint is a `FedamdError`."""
    try:
        with safe_open(path, framework="pt", device=device) as file:
            metadata = file.metadata() or {}
            if _FORMAT not in metadata:
                raise FedamdError(f"{path} is not a checkpoint of this program")
            facts: dict[str, Any] = json.loads(metadata[_FORMAT])
            return {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118  not a dict
    except (OSError, SafetensorError, json.JSONDecodeError) as error:
        raise FedamdError(f"the checkpoint {path} cannot be read (damaged or cut short?): {error}") from None


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place once it is complete and on disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """A text file, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
