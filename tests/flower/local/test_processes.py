"""Nothing is left behind: not even what a child has started in a session of its own."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fedamd.errors import FedamdError
from fedamd.flower.local import processes
from fedamd.flower.local.launch import up_in
from fedamd.flower.local.loopback import bring_down, refuse_if_running
from fedamd.flower.local.mark import Mark, read

DETACHES = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
time.sleep(600)
"""

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes through /proc")


def wait_for(mark: str, count: int) -> list[int]:
    end = time.monotonic() + 20
    while len(found := processes.marked(mark)) < count and time.monotonic() < end:
        time.sleep(0.05)
    return found


def test_all_processes_with_the_mark_are_found_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_GRACE", 0.5)  # the parent ignores SIGTERM
    bystander = subprocess.Popen(SLEEPS)
    try:
        env = processes.environment(tmp_path, "mark-1")
        process = processes.start([sys.executable, "-c", DETACHES], env, tmp_path / "logs" / "a.log")
        assert len(wait_for("mark-1", 2)) == 2
        Mark("mark-1", 0, "").write(tmp_path)
        with pytest.raises(FedamdError, match="federation down"):
            refuse_if_running(tmp_path)
        processes.end_all("mark-1", [process])
        assert processes.marked("mark-1") == []
        assert process.poll() is not None
        assert bystander.poll() is None, "nothing else was touched"
        refuse_if_running(tmp_path)
    finally:
        bystander.kill()
        bystander.wait()


def test_what_a_killed_command_has_left_can_be_brought_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_GRACE", 5.0)
    env = processes.environment(tmp_path, "mark-2")
    code = "import os, time\nos.fork() or time.sleep(600)"
    left = processes.start([sys.executable, "-c", code], env, tmp_path / "a.log")
    assert wait_for("mark-2", 1)
    Mark("mark-2", 0, "").write(tmp_path)
    left.poll()
    bring_down(tmp_path)
    left.wait(10)
    assert processes.marked("mark-2") == []
    with pytest.raises(FedamdError, match="no federation is up"):
        up_in(tmp_path)
    assert bring_down(tmp_path) == 0


STARTS = """
import sys, time
from pathlib import Path
from fedamd.flower.local import processes
folder = Path(sys.argv[1])
sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
processes.start(sleeps, processes.environment(folder, "mark-4"), folder / "log")
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell children of their parent's end")
def test_what_a_killed_process_has_started_ends_with_it(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", STARTS, str(tmp_path)], env=processes.environment(tmp_path, "x"))
    assert len(wait_for("mark-4", 1)) == 1
    parent.kill()
    parent.wait()
    end = time.monotonic() + 20
    while processes.marked("mark-4") and time.monotonic() < end:
        time.sleep(0.05)
    assert processes.marked("mark-4") == []


TIDIES = """
import time
from fedamd.flower.local import processes
with processes.leaving_on_signals():
    try:
        print("ready", flush=True)
        time.sleep(600)
    finally:
        print("begun", flush=True)
        time.sleep(0.5)
        print("done", flush=True)
"""


def test_a_second_signal_does_not_keep_the_first_from_tidying_up() -> None:
    process = subprocess.Popen([sys.executable, "-c", TIDIES], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.stdout.readline() == "begun\n"
    process.terminate()
    assert process.stdout.read() == "done\n"
    assert process.wait(20) == 128 + 15
    process.stdout.close()


KEEPS = """
import signal, sys, time
from pathlib import Path
from fedamd.flower.local.mark import Mark
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
Mark.own("mark-3").write(Path(sys.argv[1]))
time.sleep(600)
"""


def test_the_command_that_keeps_a_federation_up_is_ended_with_it(tmp_path: Path) -> None:
    up = subprocess.Popen([sys.executable, "-c", KEEPS, str(tmp_path)], env=processes.environment(tmp_path, "other"))
    try:
        end = time.monotonic() + 20
        while (there := read(tmp_path)) is None and time.monotonic() < end:
            time.sleep(0.05)
        assert there is not None
        with pytest.raises(FedamdError, match="federation down"):
            refuse_if_running(tmp_path)
        threading.Thread(target=up.wait, daemon=True).start()  # so that it does not stay as a zombie
        assert bring_down(tmp_path) == 1
        assert up.wait(10) == 0
        assert read(tmp_path) is None
    finally:
        up.kill()


def test_the_mark_of_a_newer_federation_is_left_alone(tmp_path: Path) -> None:
    old, new = Mark("old", 1, "1"), Mark("new", 2, "2")
    old.write(tmp_path)
    new.write(tmp_path)
    old.remove(tmp_path)
    assert read(tmp_path) == new
    new.remove(tmp_path)
    assert read(tmp_path) is None


def test_a_process_of_the_same_number_is_not_taken_for_the_one_that_was(tmp_path: Path) -> None:
    sleeper = subprocess.Popen(SLEEPS)
    try:
        Mark("gone", sleeper.pid, "not when it was started").write(tmp_path)
        assert bring_down(tmp_path) == 0
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.parametrize(
    ("number", "leaves"),
    [(signal.SIGTERM, SystemExit), (signal.SIGHUP, SystemExit), (signal.SIGINT, KeyboardInterrupt)],
)
def test_a_signal_to_end_that_comes_while_a_process_forks_is_heard_after_it(
    tmp_path: Path, number: signal.Signals, leaves: type[BaseException]
) -> None:
    told = False

    def tell() -> None:  # a hook of fork: what the signal's handler raises here, Python would drop
        if told:
            os.kill(os.getpid(), number)

    os.register_at_fork(before=tell)
    started = []

    def start() -> None:
        with processes.leaving_on_signals(), processes.signals.held_back():
            started.append(processes.start(SLEEPS, processes.environment(tmp_path, "mark-fork"), tmp_path / "log"))

    told = True
    try:
        with pytest.raises(leaves) as left:
            start()
    finally:
        told = False
        processes.end_all("mark-fork", started)
    assert getattr(left.value, "code", None) == (None if number == signal.SIGINT else 128 + number)
    assert len(started) == 1


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with processes.leaving_on_signals():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
