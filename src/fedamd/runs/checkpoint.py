"""Checkpoints: one safetensors file, tensors and in its header the rest as JSON. Loading one can run no code.

The facts in the header of format 2 end with a checksum of every tensor and one of the facts themselves: a file in which
anything has changed is refused. Format 1 had no checksums; it is still read.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialised
from torch import Tensor

from fedamd.errors import FedamdError
from fedamd.files import refuse_special, replacing
from fedamd.runs.sealed import digest

_FORMAT = "fedamd checkpoint 2"
_OLD_FORMAT = "fedamd checkpoint 1"
_TENSORS, _CHECK = "tensors", "check"


def save(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any], keep: Path | None = None) -> None:
    """Write both, atomically: after a crash the file is the old one (here, or under the name `keep`) or the new one."""
    apart: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        if own.untyped_storage().data_ptr() in storages:  # the format refuses tensors that share memory
            own = own.clone()
        storages.add(own.untyped_storage().data_ptr())
        apart[name] = own
    told = dict(facts) | {_TENSORS: {name: tensor_digest(tensor) for name, tensor in apart.items()}}
    header = json.dumps(told | {_CHECK: digest(json.dumps(told))})
    content = serialised(apart, metadata={_FORMAT: header})  # one entry: several have no fixed order
    with replacing(path, keep) as temporary:
        temporary.write_bytes(content)


def load(path: Path, device: str = "cpu") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the facts; a file that is not a whole checkpoint is a `FedamdError`."""
    refuse_special(path)
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            if (header := _header(metadata)) is None:
                raise FedamdError(f"{path} is not a checkpoint of this program")
            # cloned, since the memory of a file is not aligned as PyTorch's own is, and sums depend on that
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  not a dict
        facts = json.loads(header)
        if not isinstance(facts, dict):
            raise ValueError("its facts are not keys and values")
        if _FORMAT in metadata:
            _check(tensors, facts, header)
    except FedamdError:
        raise
    except (OSError, SafetensorError, ValueError, TypeError, RecursionError) as error:
        raise FedamdError(f"the checkpoint {path} cannot be read (damaged or cut short?): {error}") from None
    return {name: tensor.to(device) for name, tensor in tensors.items()}, facts


def _header(metadata: Mapping[str, str]) -> str | None:
    """The facts as they are written, in this format or in one before it; None where this is something else."""
    if _FORMAT in metadata:
        return metadata[_FORMAT]
    return metadata.get("facts") if metadata.get("format") == _OLD_FORMAT else metadata.get(_OLD_FORMAT)


def tensor_digest(tensor: Tensor) -> str:
    """Sixteen hex digits of a tensor's type, shape and bytes."""
    own = tensor.detach().cpu().contiguous()
    hashed = hashlib.sha256(f"{own.dtype} {tuple(own.shape)} ".encode())
    hashed.update(own.reshape(-1).view(torch.uint8).numpy().data if own.numel() else b"")
    return hashed.hexdigest()[:16]


def _check(tensors: Mapping[str, Tensor], facts: dict[str, Any], header: str) -> None:
    """Take the checksums out of the facts, and find what does not agree with them."""
    told = facts.pop(_CHECK, None)
    if header != json.dumps(facts | {_CHECK: digest(json.dumps(facts))}) or told is None:
        raise ValueError("its facts are not as they were written")
    written = facts.pop(_TENSORS)
    for name in written.keys() | tensors.keys():
        if name not in tensors or written.get(name) != tensor_digest(tensors[name]):
            raise ValueError(f"its tensor {name} is not as it was written")
