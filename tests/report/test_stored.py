"""Reading run folders back."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fedamd.campaigns.grid import Grid
from fedamd.campaigns.sweep import plan, sweep
from fedamd.errors import FedamdError
from fedamd.report.stored import read_run, read_runs
from fedamd.runs.folder import SUMMARY
from fedamd.runs.sealed import sealed_json
from fedamd.runs.summary import read_summary

Train = Callable[..., Path]


def test_what_a_folder_tells(trained: Train) -> None:
    stored = read_run(trained("one", seed=3))
    assert stored.status == "finished"
    assert stored.config.seed == 3
    assert [record.round for record in stored.records] == [-1, 0, 1, 2, 3]
    assert [record.round for record in stored.rounds] == [0, 1, 2, 3]
    assert "torch" in stored.environment["packages"]


def test_a_run_without_a_summary_goes_on(trained: Train) -> None:
    folder = trained("one")
    (folder / SUMMARY).unlink()
    assert read_run(folder).status == "running"


def test_the_summary_of_an_interruption_is_old_news_once_the_run_went_on(trained: Train) -> None:
    folder = trained("one")
    (folder / SUMMARY).write_text(json.dumps({"status": "interrupted", "rounds": 2}))
    assert read_run(folder).status == "running"


def test_a_folder_of_runs_stands_for_them_in_the_order_they_began(trained: Train) -> None:
    folders = [trained(f"all/{name}") for name in ("second", "first")]
    assert [one.path for one in read_runs([folders[0].parent])] == folders


def test_no_run(tmp_path: Path) -> None:
    with pytest.raises(FedamdError, match="holds no run"):
        read_runs([tmp_path])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is not valid JSON"),
        ("[]", "is damaged: it should hold status and rounds"),
        ('{"status": "finished"}', "is damaged: it should hold status and rounds"),
    ],
)
def test_a_broken_file_is_named(trained: Train, content: str, says: str) -> None:
    folder = trained("one")
    (folder / SUMMARY).write_text(content)
    with pytest.raises(FedamdError, match=rf"summary\.json {says}"):
        read_run(folder)


def test_the_folder_of_a_sweep_stands_for_its_runs(tmp_path):
    sweep(plan({"data": {"name": "quadratic"}, "rounds": 1}, Grid({"seed": [0, 1]}), tmp_path))
    assert [run.config.seed for run in read_runs([tmp_path])] == [0, 1]


@pytest.mark.parametrize("told", [{"rounds": {}}, {"measure": {"ü": 1}}, {"measure": 3}, {"measure": {"name": 4}}])
def test_a_summary_that_makes_no_sense_is_refused(told, tmp_path):
    path = tmp_path / "summary.json"
    path.write_text(sealed_json({"status": "finished", "rounds": 3} | told))
    with pytest.raises(FedamdError, match=r"summary\.json is damaged"):
        read_summary(path)
