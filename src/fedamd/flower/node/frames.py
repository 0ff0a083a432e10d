"""How node and worker talk: a message is a number of byte strings, their lengths before them."""

import socket
import struct
from collections.abc import Sequence

_COUNT, _LENGTH = struct.Struct("!I"), "Q"


def send(channel: socket.socket, frames: Sequence[bytes]) -> None:
    """All of them, or an `OSError`."""
    channel.sendall(_COUNT.pack(len(frames)) + struct.pack(f"!{len(frames)}{_LENGTH}", *map(len, frames)))
    for frame in frames:
        channel.sendall(frame)


def receive(channel: socket.socket) -> list[bytes]:
    """The next message; `EOFError` when the other side has gone."""
    (count,) = _COUNT.unpack(_exactly(channel, _COUNT.size))
    lengths = struct.unpack(f"!{count}{_LENGTH}", _exactly(channel, 8 * count))
    return [_exactly(channel, length) for length in lengths]


def _exactly(channel: socket.socket, length: int) -> bytes:
    pieces = []
    while length:
        piece = channel.recv(length, socket.MSG_WAITALL)
        if not piece:
            raise EOFError("the other side has gone")
        pieces.append(piece)
        length -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
