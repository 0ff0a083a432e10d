"""`fedamd watch` as a process: it says where, answers there, and ends with Ctrl-C."""

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from fedamd.runs.api import run


def test_watch_until_interrupted(tmp_path: Path) -> None:
    run(out=tmp_path / "one", rounds=1, clients=6, cohort=2)
    command = [sys.executable, "-m", "fedamd", "watch", str(tmp_path / "one"), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        (place,) = re.findall(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
        with urllib.request.urlopen(place, timeout=20) as answer:
            assert b"fedamd on digits" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
