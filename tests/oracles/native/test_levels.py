"""Every level of CPU: the tests of the kernels, once more with the library of that level.

Where `make dist` has made a wheel of these sources, the libraries are the wheel's own. Of a level this CPU cannot run,
the sources are compiled for one that it can, with what they know a level by: vectors of that width and sums for so many
registers, done with the instructions there are.
"""

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from built_wheel import built_wheel
from fedamd.oracles.native import build
from support import PYTHONPATH

HERE = Path(__file__).parent
ALL = {level.name: level for levels in build.LEVELS.values() for level in levels}
STAND_INS = {
    "v4": ("-march=x86-64-v2", "-D__AVX512F__=1", "-O1"),  # the shapes are tested, not the speed
    "neon": ("-march=x86-64-v2", "-D__aarch64__=1", "-O1"),
}
TESTED = ("test_oracle.py", "test_refusals.py", "test_batches.py")
WITH_STAND_IN = """
import sys
from pathlib import Path
import pytest
from fedamd.oracles.native import build
folder, *words = sys.argv[1:]
flags, tests = words[: words.index("--")], words[words.index("--") + 1 :]
level = build.Level("v2", tuple(flags), frozenset())
build.FOLDER, build.LEVELS["x86_64"] = Path(folder), (level,)
build.build(level, build.FOLDER)
sys.exit(pytest.main(["-q", "-x", *tests]))
"""


def passes(command: list[str], **env: str) -> None:
    tests = [str(HERE / name) for name in TESTED]
    env = os.environ | env | {"PYTHONPATH": PYTHONPATH}
    done = subprocess.run([sys.executable, *command, *tests], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout


def provide(library: Path, level: build.Level) -> None:
    """From the wheel, or from the compiler: the name says which sources it was built from."""
    if library.exists() or taken_from_the_wheel(library):
        return
    if build.compiler() is None:
        pytest.skip("no C++ compiler")
    build.build(level)


def taken_from_the_wheel(library: Path) -> bool:
    wheel = built_wheel()
    if wheel is None:
        return False
    with ZipFile(wheel) as archive:
        found = next((name for name in archive.namelist() if name.endswith(f"/{library.name}")), None)
        if found is not None:
            library.write_bytes(archive.read(found))
    return found is not None


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ALL)
def test_agrees_with_autograd(name: str, tmp_path: Path) -> None:
    if ALL[name] in build.runnable():
        provide(build.FOLDER / build.library_name(ALL[name]), ALL[name])
        passes(["-m", "pytest", "-q", "-x"], FEDAMD_CPU=name)
    elif name in STAND_INS and build.architecture() == "x86_64" and build.compiler() is not None:
        passes(["-c", WITH_STAND_IN, str(tmp_path), *STAND_INS[name], "--"])
    else:
        pytest.skip(f"this CPU cannot run the level {name}")
