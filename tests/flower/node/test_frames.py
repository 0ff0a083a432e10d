"""Byte strings through a pair of sockets."""

import socket
import threading

import pytest

from fedamd.flower.node import frames


@pytest.mark.parametrize("message", [[b""], [], [b"a", b"", b"bc" * 1000], [bytes(3_000_000), b"end"]], ids=len)
def test_what_is_sent_arrives(message: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(target=frames.send, args=(ours, message))
        sender.start()
        assert frames.receive(theirs) == message
        sender.join()


def test_the_end_of_the_other_side_is_told_even_in_the_middle_of_a_message() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.sendall(b"\0\0\0\1" + (100).to_bytes(8, "big") + b"only this")
        ours.close()
        with pytest.raises(EOFError):
            frames.receive(theirs)
