"""Starting Flower's programs, and ending every process they leave.

Flower's programs start others, some in sessions of their own. All inherit one word in their environment, by which they
are found again: nothing else is ever ended. They also end by themselves when the process that started them is killed
(where the system can do that: Linux).
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import fedamd

MARK = "FEDAMD_FEDERATION"
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None  # looked up before any fork
_PR_SET_PDEATHSIG = 1
_GRACE = 8.0  # seconds between asking a process to end and ending it


class Signals:
    """Signals to end as exceptions, held back while a process forks: Python drops what is raised in a fork's hooks."""

    def __init__(self) -> None:
        self._are_held_back = False
        self._came = 0

    def leave(self, number: int, frame: object) -> None:  # noqa: ARG002
        """The handler."""
        if number != signal.SIGINT:  # whoever presses Ctrl-C twice means it
            for further in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(further, signal.SIG_IGN)  # a second one would keep the blocks from ending what they began
        if self._are_held_back:
            self._came = number
        else:
            raise _leaving(number)

    @contextlib.contextmanager
    def held_back(self) -> Iterator[None]:
        """One that comes in this block leaves at its end."""
        self._are_held_back, self._came = True, 0
        try:
            yield
        finally:
            self._are_held_back = False
        if self._came:
            raise _leaving(self._came)


def _leaving(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


signals = Signals()


def environment(home: Path, mark: str) -> dict[str, str]:
    """What Flower's programs are started with: a home of their own, no telemetry, and the package that starts them."""
    here = str(Path(fedamd.__file__).parents[1])
    path = os.environ.get("PYTHONPATH")
    return os.environ | {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "PYTHONPATH": f"{here}{os.pathsep}{path}" if path else here,
        "PATH": search_path(),
        MARK: mark,
    }


def search_path() -> str:
    """Where Flower's programs are found, even if the virtual environment they are in has not been activated."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


def start(command: Sequence[str], env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """A program in a session of its own, its output in a file; asked to end when this thread has, however that was."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            list(command),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent if _LIBC else None,
        )


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """Have the system send this process a signal when the one that started it ends; nothing where it cannot."""
    if _LIBC:
        _LIBC.prctl(_PR_SET_PDEATHSIG, number)


def marked(mark: str) -> list[int]:
    """The living processes that carry the mark (where the system has /proc)."""
    word = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile, or somebody else's
            if int(entry.name) != os.getpid() and word in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def end_all(mark: str, started: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask all of them to end; end those that do not. Returns when none is left."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in started:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, number)
        for pid in marked(mark):
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        if _gone(mark, started):
            return


def end(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGTERM) -> None:
    """End one program and its group."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, number)
    process.wait(_GRACE)


@contextlib.contextmanager
def leaving_on_signals() -> Iterator[None]:
    """Where a signal to end would leave children behind: let it leave through the `with` blocks instead. One that this
    process was started to ignore (`nohup`, or a shell's `&`) stays ignored."""
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signals.leave) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _gone(mark: str, started: Sequence[subprocess.Popen[bytes]]) -> bool:
    end = time.monotonic() + _GRACE
    while time.monotonic() < end:
        if all(process.poll() is not None for process in started) and not marked(mark):
            return True
        time.sleep(0.1)
    return False
