"""A warm process that forks workers: torch, fedamd and Flower's client are imported once, before the first message.

    python -m fedamd.flower.node.forkserver FD

FD is its end of an unnamed pair of sockets; nobody but the node that started it can speak to it. It is asked for two
things: `FORK`, with the worker's end of another such pair, answered by the worker's process id; and `WAIT` with a
process id, answered by how that worker ended. It ends when the node does. No tensor is made here and no thread started:
a fork would inherit them broken.
"""

import gc
import os
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

FORK, WAIT = b"F", b"W"
NUMBER = struct.Struct("!i")


def serve(control: socket.socket) -> None:
    """Until the node has gone."""
    from fedamd.flower.node.worker import preload, work

    preload()
    gc.collect()
    gc.freeze()  # the collector does not touch what is shared with workers: a page it writes to is theirs alone
    while True:
        order, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if order == FORK:
            channel = socket.socket(fileno=descriptors[0])
            sys.stdout.flush()
            process = os.fork()
            if not process:
                control.close()
                _live(work, channel)
            channel.close()
            control.sendall(NUMBER.pack(process))
        elif order == WAIT:
            (process,) = NUMBER.unpack(control.recv(NUMBER.size, socket.MSG_WAITALL))
            control.sendall(NUMBER.pack(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])))
        else:
            return


def _live(work: Callable[[socket.socket], None], channel: socket.socket) -> NoReturn:
    """A worker's life, from the fork to its end: it never returns to the fork server's loop."""
    code = 1
    try:
        work(channel)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the node's to deal with
    serve(socket.socket(fileno=int(sys.argv[1])))
