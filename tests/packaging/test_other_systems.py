"""macOS and Windows lack modules that Linux has: nothing may need them at import, nor a run."""

import subprocess
import sys
from pathlib import Path

import pytest

from support import PYTHONPATH

SCRIPT = """
import importlib, pkgutil, sys

class Absent:
    names = {"fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "syslog", "spwd", "crypt", "nis"}
    def find_spec(self, name, path=None, target=None):
        if name in self.names:
            raise ImportError(f"there is no {name} on this system")

for name in Absent.names:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Absent())

import fedamd
skipped = ("fedamd.__main__", "fedamd.oracles.native.__main__", "fedamd.flower", "fedamd.oracles.stacked.triton")
for module in pkgutil.walk_packages(fedamd.__path__, "fedamd.", onerror=lambda name: None):
    if not module.name.startswith(skipped) and "._native" not in module.name:
        importlib.import_module(module.name)
print(fedamd.run(rounds=2, clients=10, cohort=5, out=sys.argv[1]).summary["status"])
"""


@pytest.mark.slow
def test_nothing_imports_what_they_lack(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": PYTHONPATH, "PATH": "", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.stdout == "finished\n", done.stderr[-2000:]
