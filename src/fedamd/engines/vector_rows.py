"""A vector in a row of an SQLite table: its type, its bytes, and a checksum that is bound to its place in the table."""

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedamd.errors import FedamdError

COLUMNS = "dtype TEXT, checksum INTEGER, vector BLOB"
TYPES = frozenset(("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"))
Row = tuple[str, int, bytes]


def encode(place: tuple[Any, ...], vector: Tensor) -> Row:
    """The columns of a vector; `place` is what the other columns of its row say."""
    dtype, content = str(vector.dtype).removeprefix("torch."), vector.detach().cpu().contiguous().numpy().tobytes()
    return dtype, checksum(*place, dtype, content), content


def decode(place: tuple[Any, ...], dtype: object, expected: object, content: object) -> Tensor:
    """The vector of a row, if that is what was written there."""
    if dtype not in TYPES or not isinstance(content, bytes) or checksum(*place, dtype, content) != expected:
        raise FedamdError(f"the vector at {', '.join(map(str, place))} is damaged: it is not what was written")
    return torch.from_numpy(np.frombuffer(content, str(dtype)).copy())


def checksum(*parts: Any) -> int:
    """64 bits of a hash, as SQLite keeps whole numbers."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return int.from_bytes(digest.digest()[:8], "big", signed=True)
