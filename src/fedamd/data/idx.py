"""Reads IDX files, the format of MNIST and its relatives, plain or gzipped, into tensors of unsigned bytes.

An IDX file is two zero bytes, a byte for the element type, a byte for the number of dimensions, the dimensions as
big-endian 32-bit numbers, and the elements. All image and label files of the MNIST family hold unsigned bytes.
"""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import torch
from torch import Tensor

from fedamd.errors import FedamdError
from fedamd.files import refuse_special

TYPES = {0x08: "uint8", 0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}
UNSIGNED_BYTE = 0x08
GZIP_MAGIC = b"\x1f\x8b"
MOST_INFLATED = 1032  # bytes that one byte of gzip can stand for


def read_idx(path: Path, dimensions: int) -> Tensor:
    """The uint8 tensor in an IDX file that must have so many `dimensions`."""
    refuse_special(path)
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == GZIP_MAGIC
            file.seek(0)
            room = path.stat().st_size * MOST_INFLATED if zipped else None
            return _parse(cast(BinaryIO, gzip.GzipFile(fileobj=file)) if zipped else file, path, dimensions, room)
    except EOFError as error:
        raise FedamdError(f"{path} is truncated: its gzip stream ends early") from error
    except zlib.error as error:
        raise FedamdError(f"{path} is corrupt: {error}") from error
    except OSError as error:  # gzip.BadGzipFile is one too
        raise FedamdError(f"{path} cannot be read: {error.strerror or error}") from error


def read_labelled(images_path: Path, labels_path: Path) -> tuple[Tensor, Tensor]:
    """Images (n, rows, columns) and their labels (n,), both uint8."""
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise FedamdError(
            f"{images_path} holds {len(images)} images and {labels_path} holds {len(labels)} labels; "
            "the numbers must be equal"
        )
    return images, labels


def _parse(stream: BinaryIO, path: Path, dimensions: int, room: int | None) -> Tensor:
    magic = _take(stream, 4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in TYPES:
        raise FedamdError(f"{path} is not an IDX file: it starts with {magic.hex() or 'nothing'}")
    if magic[2] != UNSIGNED_BYTE:
        raise FedamdError(f"{path} holds {TYPES[magic[2]]} values; uint8 is expected")
    if magic[3] != dimensions:
        raise FedamdError(f"{path} has {magic[3]} dimensions; {dimensions} are expected")
    header = _take(stream, 4 * dimensions)
    if len(header) < 4 * dimensions:
        raise FedamdError(f"{path} is truncated: it ends inside its header")
    shape = struct.unpack(f">{dimensions}I", header)
    if room is not None and math.prod(shape) > room:
        raise FedamdError(f"{path} is truncated or corrupt: a file of its size cannot hold shape {shape}")
    return _elements(stream, path, shape)


def _elements(stream: BinaryIO, path: Path, shape: tuple[int, ...]) -> Tensor:
    count = math.prod(shape)
    if count == 0:
        raise FedamdError(f"{path} is empty: its shape is {shape}")
    content = _take(stream, count)
    if len(content) < count:
        raise FedamdError(f"{path} is truncated: shape {shape} needs {count} bytes, it has {len(content)}")
    if _take(stream, 1):
        raise FedamdError(f"{path} is corrupt: it goes on after the {count} bytes of shape {shape}")
    return torch.frombuffer(content, dtype=torch.uint8).reshape(shape)


def _take(stream: BinaryIO, count: int) -> bytearray:
    """Up to `count` bytes, block by block, so that a corrupt header cannot make one huge allocation."""
    content = bytearray()
    while len(content) < count and (block := stream.read(min(1 << 20, count - len(content)))):
        content += block
    return content
