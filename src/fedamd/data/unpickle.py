"""Reads a pickle of plain values and byte arrays without executing anything in it.

A pickle is a program that may call any function it names. Here it may name what a NumPy array is written with, and gets
stand-ins for those: they keep the pieces, and an array is made of them afterwards, by us. Whatever else a pickle names
is refused. (CIFAR's "Python version" consists of such files.)
"""

import io
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedamd.errors import FedamdError
from fedamd.files import refuse_special


class Refused(Exception):
    """The pickle names something that it has no business with."""


class _DType:
    """What stands for numpy.dtype: the letters it is made with."""

    def __init__(self, code: str | bytes, *_: Any) -> None:
        self.code = code.decode("latin-1") if isinstance(code, bytes) else str(code)

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment, which single bytes do not have."""


class _Array:
    """What stands for numpy.ndarray: shape, type and bytes, as they were written."""

    def __init__(self) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def bytes_array(self) -> NDArray[np.uint8]:
        """The uint8 array that was written, if it was one."""
        _, shape, kind, by_columns, content = self.state
        if kind.code not in ("u1", "|u1") or by_columns or not isinstance(content, bytes):
            raise Refused("it holds an array that is not of unsigned bytes, row by row")
        if len(content) != math.prod(shape):
            raise Refused(f"it holds an array of shape {shape} with {len(content)} bytes")
        return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _from_buffer(content: object, kind: _DType, shape: object, order: str) -> _Array:
    """How protocol 5 has it."""
    array = _Array()
    array.state = (1, shape, kind, order != "C", bytes(content) if isinstance(content, bytes | bytearray) else None)
    return array


def _encode(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes in the older protocols."""
    if encoding != "latin1":
        raise Refused(f"it wants text in the encoding {encoding!r}")
    return text.encode("latin-1")


_NAMED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _DType,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("_codecs", "encode"): _encode,
}


class _PlainUnpickler(pickle._Unpickler):
    """Python's own reader in Python: the one in C reserves as much memory as a forged file tells it to."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMED:
            raise Refused(f"it wants to use {module}.{name}, and data needs no such thing")
        return _NAMED[module, name]


def read_plain_pickle(path: Path) -> dict[str, Any]:
    """The dictionary in a pickle file; keys are words, arrays of bytes are NumPy arrays."""
    refuse_special(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FedamdError(f"{path} cannot be read: {error.strerror}") from error
    try:
        found = _PlainUnpickler(io.BytesIO(content), encoding="bytes").load()
        if not isinstance(found, dict):
            raise Refused(f"it holds a {type(found).__name__}, not a dictionary")
        return {_word(key): _plain(value) for key, value in found.items()}
    except Refused as error:
        raise FedamdError(f"{path} was not read: {error}") from None
    except Exception as error:  # a broken pickle ends in any exception there is, and none of them is our mistake
        raise FedamdError(f"{path} is not a pickle, or is cut off: {error or type(error).__name__}") from None


def _word(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if not isinstance(value, str):
        raise Refused(f"it has the key {value!r}, which is no word")
    return value


def _plain(value: object) -> Any:
    return value.bytes_array() if isinstance(value, _Array) else value
