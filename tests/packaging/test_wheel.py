"""The wheel of `make dist`, in a new environment that has no compiler: it trains, and the tutorial runs as written."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from built_wheel import built_wheel
from fedamd.oracles.native import build

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorials" / "own.md"


@pytest.fixture(scope="module")
def wheel() -> Path:
    found = built_wheel()
    if found is None:
        pytest.skip("there is no wheel: `make dist` makes it")
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with nothing but the wheel, what it needs, and pytest, which the tutorial uses."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile"]
    subprocess.run([*install, "--constraint", ROOT / "constraints.txt", wheel, "pytest"], check=True, env=_clean())
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
def test_its_extras_can_be_installed_beside_it(environment: Path, wheel: Path) -> None:
    """pip finds versions for all of them that go with what is there; only metadata is downloaded for that."""
    pip = [environment / "python", "-m", "pip", "install", "--dry-run", "--constraint", ROOT / "constraints.txt"]
    extras = f"{wheel}[flower,tune,tensorboard]"
    done = subprocess.run([*pip, extras], capture_output=True, text=True, env=_clean(), check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (would,) = (line for line in done.stdout.splitlines() if line.startswith("Would install"))
    assert all(f" {package}-" in would for package in ("flwr", "optuna", "tensorboard"))


def test_the_way_from_pip_to_a_report_is_short() -> None:
    """At most fifteen lines, from `pip install` to `fedamd report`."""
    page = TUTORIAL.read_text().split("```")[1::2]
    last = next(i for i, block in enumerate(page) if "fedamd report" in block)
    lines = [line for block in page[: last + 1] for line in block.splitlines()[1:] if line.strip()]
    assert lines[0] == "pip install fedamd"
    assert len(lines) <= 15
