"""`fedamd compare` from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedamd.cli.main import app
from support import torchrun

FLAGS = "compare --rounds 3 --set clients=6 --set cohort=3 --set algorithm.steps=2 --set algorithm.small_batch=4"


def test_table_figure_and_folders(tmp_path: Path) -> None:
    out = tmp_path / "out"
    flags = [*FLAGS.split(), "--set", "algorithm.p=0.5", "--out", str(out), "--target", "0.99"]
    told = CliRunner().invoke(app, flags, catch_exceptions=False)
    assert told.exit_code == 0
    assert "fedavg, scaffold: no option p, left as it is" in told.output
    assert "to 99%" in told.stdout
    assert (out / "comparison.png").stat().st_size > 10_000
    assert {path.name for path in out.iterdir() if path.is_dir()} == {"fedamd", "fedavg", "scaffold"}


def test_json(tmp_path: Path) -> None:
    flags = [*FLAGS.split(), "--algorithms", "fedamd, fedavg", "--out", str(tmp_path / "out"), "--json", "--seed", "7"]
    told = json.loads(CliRunner().invoke(app, flags, catch_exceptions=False).stdout)
    assert [row["method"] for row in told["methods"]] == ["fedamd", "fedavg"]
    assert told["target_accuracy"] == 0.75


def test_the_default_folder_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        flags = [*FLAGS.split(), "--algorithms", "fedamd,fedavg", "--rounds", "1"]
        assert CliRunner().invoke(app, flags, catch_exceptions=False).exit_code == 0
    assert len(list((tmp_path / "compare").iterdir())) == 2


def rows(folder: Path) -> list[dict[str, Any]]:
    """What the comparison found, without the times."""
    content = json.loads((folder / "comparison.json").read_text())
    return [{key: value for key, value in row.items() if key != "seconds"} for row in content["methods"]]


@pytest.mark.slow
def test_two_processes_compare_as_one_and_one_of_them_speaks(tmp_path: Path) -> None:
    flags = [*FLAGS.split(), "--set", "algorithm.p=0.5", "--set", "dtype=float64", "--set", "oracle=autograd"]
    job = torchrun(2, "-m", "fedamd", *flags, "--out", str(tmp_path / "two"))
    assert CliRunner().invoke(app, [*flags, "--out", str(tmp_path / "one")], catch_exceptions=False).exit_code == 0
    told, errors = job.communicate(timeout=100)
    assert job.returncode == 0, errors
    assert rows(tmp_path / "two") == rows(tmp_path / "one")
    assert len(rows(tmp_path / "two")) == 3
    names = sorted(str(path.relative_to(tmp_path / "one")) for path in (tmp_path / "one").rglob("*"))
    assert names == sorted(str(path.relative_to(tmp_path / "two")) for path in (tmp_path / "two").rglob("*"))
    for line in ("fedamd  round    3/3", "scaffold  round    3/3", "records in"):
        assert told.count(line) == 1
    assert errors.count("no option p, left as it is") == 1

    job = torchrun(2, "-m", "fedamd", *flags, "--seed", "1", "--out", str(tmp_path / "two"))
    _, errors = job.communicate(timeout=100)
    assert job.returncode != 0
    assert errors.count("error: ") == 1
    assert "two was begun as another comparison" in errors
