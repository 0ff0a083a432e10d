"""The workers as the node sees them: one for each run, made when it is first needed, and again when it has died.

A client's machine has at most `AT_ONCE` of them; one that had nothing to do for `IDLE` seconds is ended. So an idle
node costs itself and the fork server, and nothing else.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from fedamd.flower.node import frames
from fedamd.flower.node.forkserver import FORK, NUMBER, WAIT
from fedamd.flower.node.private_flwr import WireMessage
from fedamd.flower.node.worker import Job

AT_ONCE = 2
IDLE = 600.0
FIRST = 120.0  # seconds a new worker has for its first reply, if its message has less: it loads the app and the data


class WorkerDied(Exception):
    """No reply will come: the worker has ended, or could not be made."""


class WorkerHung(Exception):
    """No reply came in time; the worker was killed."""


class ForkServer:
    """The warm process, started at once so that it imports while the node connects."""

    def __init__(self) -> None:
        self._start()

    def fork(self, channel: socket.socket) -> int:
        """A worker with this end of a pair of sockets; its process id."""
        try:
            return self._fork(channel)
        except OSError:  # it was killed: workers do not need it, but a new one does
            self.stop()
            self._start()
        try:
            return self._fork(channel)
        except OSError:
            code = self._process.wait()
            raise WorkerDied(f"no worker can be made: what it needs cannot be imported (exit code {code})") from None

    def wait(self, process: int) -> int | None:
        """How a worker that has ended, has: an exit code, or minus the signal; None if nobody knows."""
        try:
            self._control.sendall(WAIT + NUMBER.pack(process))
            return self._number()
        except OSError:
            return None

    def stop(self) -> None:
        self._control.close()
        self._process.kill()
        self._process.wait()

    def _start(self) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "fedamd.flower.node.forkserver", str(theirs.fileno())]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])

    def _fork(self, channel: socket.socket) -> int:
        socket.send_fds(self._control, [FORK], [channel.fileno()])
        return self._number()

    def _number(self) -> int:
        answer = self._control.recv(NUMBER.size, socket.MSG_WAITALL)
        if len(answer) < NUMBER.size:
            raise ConnectionError("the fork server has ended")
        number: int = NUMBER.unpack(answer)[0]
        return number


class Worker:
    """One process, and the socket to it."""

    def __init__(self, server: ForkServer, job: Job, fab: bytes) -> None:
        self._server = server
        self._channel, theirs = socket.socketpair()
        with theirs:
            self.process = server.fork(theirs)
        self.last_used = time.monotonic()
        with contextlib.suppress(OSError):  # dead already: `ask` will say so
            frames.send(self._channel, [json.dumps(job.plain()).encode(), fab])

    def ask(self, parcel: WireMessage, seconds: float) -> WireMessage:
        """Its reply to a message."""
        self.last_used = time.monotonic()
        try:
            frames.send(self._channel, parcel.to_frames())
            if not select.select([self._channel], [], [], seconds)[0]:
                self.end()
                raise WorkerHung(f"the worker had not replied after {seconds:.0f} s and was ended")
            return WireMessage.from_frames(frames.receive(self._channel))
        except (EOFError, OSError):
            code = self.end()
            raise WorkerDied(f"the worker {_ended(code)} while it was at work") from None

    def end(self) -> int | None:
        """End it; how it ended, if it had by itself."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)  # its own end, if there was one, came before this and is what is told
        self._channel.close()
        return self._server.wait(self.process)


class Workers:
    """Workers by run."""

    def __init__(self, folder: Path) -> None:
        """`folder` is for the files of apps; what another life has left in it goes."""
        self._server = ForkServer()
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._alive: dict[int, Worker] = {}

    def ask(self, job: Job, fab: bytes, parcel: WireMessage, seconds: float) -> WireMessage:
        """The reply of the run's worker, or `WorkerDied` or `WorkerHung`; then the next message gets a new one."""
        worker = self._alive.pop(job.run_id, None)
        if (
            worker is None
        ):  # were it ended with a short message, and the next one with the next, it would never be ready
            worker, seconds = self._made(job, fab), max(seconds, FIRST)
        reply = worker.ask(parcel, seconds)
        self._alive[job.run_id] = worker  # the last one used is the last in the dictionary
        return reply

    def end_idle(self) -> None:
        """End those that nobody has asked for a while."""
        before = time.monotonic() - IDLE
        for run_id in [number for number, worker in self._alive.items() if worker.last_used < before]:
            self._alive.pop(run_id).end()

    def processes(self) -> dict[int, int]:
        """Process ids by run."""
        return {run_id: worker.process for run_id, worker in self._alive.items()}

    def stop(self) -> None:
        for worker in self._alive.values():
            worker.end()
        self._alive.clear()
        self._server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _made(self, job: Job, fab: bytes) -> Worker:
        while len(self._alive) >= AT_ONCE:
            self._alive.pop(next(iter(self._alive))).end()
        return Worker(self._server, job, fab)


def _ended(code: int | None) -> str:
    if code is None:
        return "has ended"
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
