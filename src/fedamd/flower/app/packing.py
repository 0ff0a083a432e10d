"""Compressed vectors in few bytes, without loss: the shortest of three ways to write the numbers of a vector down.

raw       every number
sparse    the numbers that are not zero, and how many zeros stand before each (rand-k)
palette   the numbers that occur, and for every place in the vector which of them it is (a quantiser)

The receiver needs no knowledge of the compressor and gets the very numbers that it put out (but for the sign of a
zero), so a federation computes what a simulation does. What it costs beyond the compressor's own count of bits:
`sparse` tells where the numbers are, in 8 bits each while gaps are below 256 and in 16 below 65,536; `palette` tells
the numbers themselves, at most 2s + 1 for s levels.

`unpack` takes bytes from anyone: whatever is not exactly one of these is a `ValueError`.
"""

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[Any]]

RAW, SPARSE, PALETTE = "fedamd.raw", "fedamd.sparse", "fedamd.palette"
_GAPS = {1: "<u1", 2: "<u2", 4: "<u4"}  # by the bytes of one
_MOST_COLOURS = 1 << 16


def pack(numbers: Numbers) -> tuple[str, bytes]:
    """A vector (1-d, in the byte order of the wire): the way it is written, and the bytes."""
    found = [(RAW, numbers.tobytes()), (SPARSE, _sparse(numbers)), (PALETTE, _palette(numbers))]
    return min(((way, data) for way, data in found if data is not None), key=lambda one: len(one[1]))


def unpack(way: str, data: bytes, count: int, kind: "np.dtype[Any]") -> Numbers:
    """What `pack` was given: so many numbers of this type."""
    if way not in _READERS:
        raise ValueError(f"a vector written as {way}")
    return _READERS[way](data, count, kind)


def _raw(data: bytes, count: int, kind: "np.dtype[Any]") -> Numbers:
    if len(data) != count * kind.itemsize:
        raise ValueError(f"{len(data)} bytes for {count} numbers of {kind.itemsize} bytes each")
    return np.frombuffer(data, kind)


def _sparse(numbers: Numbers) -> bytes:
    """The width of a gap, the gaps, the numbers."""
    places = np.flatnonzero(numbers)
    gaps = np.diff(places, prepend=-1) - 1
    width = next(width for width in _GAPS if gaps.max(initial=0) < 256**width)
    return bytes([width]) + gaps.astype(_GAPS[width]).tobytes() + numbers[places].tobytes()


def _from_sparse(data: bytes, count: int, kind: "np.dtype[Any]") -> Numbers:
    width = data[0] if data else 0
    if width not in _GAPS:
        raise ValueError("a sparse vector whose gaps have no width")
    told, rest = divmod(len(data) - 1, width + kind.itemsize)
    if rest or told > count:
        raise ValueError(f"a sparse vector of {len(data)} bytes for {count} numbers")
    gaps = np.frombuffer(data, _GAPS[width], told, offset=1)
    places = np.cumsum(gaps.astype(np.int64) + 1) - 1
    if told and places[-1] >= count:
        raise ValueError(f"a sparse vector with a number at place {places[-1]} of {count}")
    numbers = np.zeros(count, kind)
    numbers[places] = np.frombuffer(data, kind, told, offset=1 + told * width)
    return numbers


def _palette(numbers: Numbers) -> bytes | None:
    """How many colours, the colours, and the bits of every place's colour: all lowest bits, then all second ones, …"""
    colours, codes = np.unique(numbers + numbers.dtype.type(0), return_inverse=True)  # -0.0 + 0 is 0.0
    if not 0 < len(colours) <= _MOST_COLOURS:
        return None
    planes = [np.packbits((codes >> bit & 1).astype(bool)).tobytes() for bit in range(_bits(len(colours)))]
    return struct.pack("<I", len(colours)) + colours.astype(numbers.dtype).tobytes() + b"".join(planes)


def _from_palette(data: bytes, count: int, kind: "np.dtype[Any]") -> Numbers:
    (several,) = struct.unpack("<I", data[:4]) if len(data) >= 4 else (0,)
    if not 0 < several <= _MOST_COLOURS:
        raise ValueError("a vector of a palette without colours, or with too many")
    start, plane = 4 + several * kind.itemsize, math.ceil(count / 8)
    if len(data) != start + _bits(several) * plane:
        raise ValueError(f"{len(data)} bytes for {count} numbers of a palette of {several}")
    codes = np.zeros(count, np.int64)
    for bit in range(_bits(several)):
        packed = np.frombuffer(data, np.uint8, plane, offset=start + bit * plane)
        codes |= np.unpackbits(packed, count=count).astype(np.int64) << bit
    if codes.max(initial=0) >= several:
        raise ValueError(f"colour {codes.max()} of a palette of {several}")
    return np.frombuffer(data, kind, several, offset=4)[codes]


def _bits(colours: int) -> int:
    return (colours - 1).bit_length()


_READERS: dict[str, Callable[[bytes, int, "np.dtype[Any]"], Numbers]] = {
    RAW: _raw,
    SPARSE: _from_sparse,
    PALETTE: _from_palette,
}
