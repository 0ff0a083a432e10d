"""Every level of CPU this one can run: the tests of the kernels, once more with the library of that level."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedamd.oracles.native import build
from support import PYTHONPATH

HERE = Path(__file__).parent
ALL = {level.name: level for levels in build.LEVELS.values() for level in levels}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ALL)
def test_agrees_with_autograd(name: str) -> None:
    if ALL[name] not in build.runnable():
        pytest.skip(f"this CPU cannot run the level {name}")
    if build.compiler() is None:
        pytest.skip("no C++ compiler")
    if not (build.FOLDER / build.library_name(ALL[name])).exists():
        build.build(ALL[name])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", HERE / "test_oracle.py", HERE / "test_batches.py"],
        capture_output=True,
        text=True,
        env=os.environ | {"FEDAMD_CPU": name, "PYTHONPATH": PYTHONPATH},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "skipped" not in done.stdout
