"""`fedamd tune` from the command line."""

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("optuna")

from fedamd.cli.main import app

FLAGS = "tune --trials 9 --batch 9 --set rounds=9 --set clients=10 --set cohort=3 --set model.name=softmax"
METHOD = "--set algorithm.name=fedavg --set algorithm.steps=2 --set algorithm.small_batch=8"


def invoke(*flags: str):
    return CliRunner().invoke(app, [*FLAGS.split(), *METHOD.split(), *flags], catch_exceptions=False)


def test_the_best_is_told_kept_and_drawn(tmp_path: Path) -> None:
    told = invoke("--out", str(tmp_path / "t"))
    assert told.exit_code == 0
    lines = told.stdout.splitlines()
    assert [line.split(",")[0] for line in lines[:3]] == ["trials 0–8"] * 3
    assert [line.split(",")[1].split(" of")[0] for line in lines[:3]] == [" 11%", " 33%", " 100%"]
    best = tomllib.loads((tmp_path / "t" / "best.toml").read_text(encoding="utf-8"))["algorithm"]
    assert f"algorithm.eta_l = {best['eta_l']}" in lines[3]
    page = (tmp_path / "t" / "tune.html").read_text(encoding="utf-8")
    assert all(f'"{title}"' in page for title in ("Curves", "Trials"))
    again = invoke("--out", str(tmp_path / "t"))  # finished: nothing is run, the same is told
    assert again.stdout.splitlines()[3] == lines[3]


def test_mistakes_in_words(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    for flags, sentence in {
        ("--out", str(tmp_path / "full")): "full is not empty and holds no tuning",
        ("--budget", "minutes=3", "--out", str(tmp_path / "a")): "minutes",
        ("--search", "algorithm.eta_l=log:0:1", "--out", str(tmp_path / "b")): "log:0:1",
        ("--search", "algorithm.speed=log:0.1:1", "--out", str(tmp_path / "c")): "algorithm.speed",
    }.items():
        told = CliRunner().invoke(app, [*FLAGS.split(), *METHOD.split(), *flags])
        assert told.exit_code != 0
        assert sentence in told.output + str(told.exception)
        assert not any((tmp_path / name).exists() for name in "abc")
