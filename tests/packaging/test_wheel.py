"""The wheel of `make dist`, in a new environment that has no compiler: it trains, and the tutorial runs as written."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fedamd import __version__
from fedamd.oracles.native import build

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorials" / "own.md"


@pytest.fixture(scope="module")
def wheel() -> Path:
    found = sorted((ROOT / "dist").glob(f"fedamd-{__version__}-*.whl"))
    if not found:
        pytest.skip("there is no wheel: `make dist` makes it")
    return found[-1]


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with nothing but the wheel, what it needs, and pytest, which the tutorial uses."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt"]
    subprocess.run([*install, wheel, "pytest"], check=True, env=_clean())
    return folder / "bin"


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"CXX": "no-compiler"}


@pytest.mark.slow
def test_holds_a_library_for_every_level(wheel: Path) -> None:
    names = {Path(name).name for name in zipfile.ZipFile(wheel).namelist()}
    assert {build.library_name(level) for level in build.levels()} <= names
    assert wheel.name.split("-")[2:4] == ["py3", "none"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_doctor_finds_the_best_library(environment: Path, tmp_path: Path) -> None:
    told = subprocess.run(
        [environment / "fedamd", "doctor", "--json"],
        capture_output=True,
        text=True,
        env=_clean(),
        cwd=tmp_path,
        check=True,
    )
    cpu = json.loads(told.stdout)["cpu"]
    assert cpu["compiler"] is None
    assert cpu["native_library"] == (build.runnable()[0].name if build.runnable() else None)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_tutorial_runs_as_written(environment: Path, tmp_path: Path) -> None:
    runner = ROOT / "tests" / "docs" / "blocks.py"
    done = subprocess.run(
        [environment / "python", runner, TUTORIAL],
        capture_output=True,
        text=True,
        env=_clean(),
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert (tmp_path / "mine" / "runs" / "patients" / "report.html").is_file()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("extra", ["flower", "tune", "tensorboard"])
def test_an_extra_can_be_installed_beside_it(environment: Path, wheel: Path, extra: str) -> None:
    """pip finds a set of versions that goes with what is there; nothing is downloaded for that but metadata."""
    pip = [environment / "python", "-m", "pip", "install", "--dry-run", "--constraint", ROOT / "constraints.txt"]
    done = subprocess.run([*pip, f"{wheel}[{extra}]"], capture_output=True, text=True, env=_clean(), check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Would install" in done.stdout


def test_the_way_from_pip_to_a_report_is_short() -> None:
    """At most fifteen lines, from `pip install` to `fedamd report`."""
    page = TUTORIAL.read_text().split("```")[1::2]
    last = next(i for i, block in enumerate(page) if "fedamd report" in block)
    lines = [line for block in page[: last + 1] for line in block.splitlines()[1:] if line.strip()]
    assert lines[0] == "pip install fedamd"
    assert len(lines) <= 15
