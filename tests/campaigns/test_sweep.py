"""Sweeps: lockstep changes nothing, interruptions lose nothing, and the best setting is the best on average."""

import csv
import json
import math
import os
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

import fedamd
from fedamd.campaigns.grid import Grid
from fedamd.campaigns.sweep import plan, sweep
from fedamd.errors import FedamdError
from fedamd.metrics import Measure
from fedamd.runs.config import load_config
from fedamd.runs.folder import Folder, exclusively
from fedamd.runs.model_file import read_vector

DIGITS: dict[str, Any] = {
    "rounds": 4,
    "clients": 6,
    "cohort": 3,
    "dtype": "float64",
    "checkpoint_every": 3,
    "model": {"name": "mlp", "hidden": 6},
    "algorithm": {"p": 0.5, "steps": 2, "small_batch": 4, "large_batch": 20},
}
QUADRATIC: dict[str, Any] = {
    "rounds": 12,
    "clients": 5,
    "cohort": 2,
    "dtype": "float64",
    "checkpoint_every": 5,
    "data": {"name": "quadratic", "samples": 3, "dimension": 4},
    "algorithm": {"p": 0.5, "steps": 2, "small_batch": 2, "cache": "client"},
}
RATES = {"algorithm.eta_l": [0.1, 0.01], "seed": [0, 1, 2]}


def trained(folder: Path) -> tuple[list[dict[str, Any]], torch.Tensor]:
    """The metrics of a run without the times, and its final model."""
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for record in metrics:
        del record["seconds"], record["check"]
    return metrics, read_vector(folder / "model.safetensors")


def trained_model(folder: Path) -> torch.Tensor:
    return read_vector(folder / "model.safetensors")


def numbers(record: dict[str, Any]) -> list[float]:
    flat = [record["round"], record["loss"], *record["metrics"].values(), *record["costs"].values()]
    return [math.nan if value is None else value for value in flat]


def runs_of(folder: Path) -> dict[str, Path]:
    return {path.name: path for path in (folder / "runs").iterdir()}


# --- lockstep ---


def test_lockstep_is_what_separate_runs_are(tmp_path):
    """Different rates, caches and seeds (hence clients, cohorts and x_0) in one stack; equal up to rounding."""
    grid = Grid({"algorithm.eta_l": [0.1, 0.01], "algorithm.cache": ["server", "client"], "seed": [0, 1]})
    planned = plan(DIGITS, grid, tmp_path / "sweep", {"engine": "vector", "oracle": "autograd"})
    result = sweep(planned)
    for config, folder in zip(planned.configs, planned.folders, strict=True):
        fedamd.run(config, out=tmp_path / "alone" / folder.name)
        metrics, x = trained(folder)
        expected, expected_x = trained(tmp_path / "alone" / folder.name)
        torch.testing.assert_close(x, expected_x, rtol=1e-10, atol=1e-12)
        for record, wanted in zip(metrics, expected, strict=True):
            assert record.keys() == wanted.keys()
            assert numbers(record) == pytest.approx(numbers(wanted), rel=1e-10, nan_ok=True)
    assert [entry.status for entry in result.entries] == ["finished"] * 4


def test_points_of_other_data_and_models_run_too(tmp_path):
    """Quadratic problems are made for their seed and number of clients; each group has an engine of its own."""
    grid = Grid({"data.dimension": [3, 4], "clients": [4, 5], "seed": [0, 1]})
    planned = plan(QUADRATIC, grid, tmp_path / "sweep")
    assert sweep(planned).measure == Measure("test_loss", higher_is_better=False)
    for config, folder in zip(planned.configs, planned.folders, strict=True):
        fedamd.run(config, out=tmp_path / "alone" / folder.name)
        torch.testing.assert_close(trained(folder)[1], trained(tmp_path / "alone" / folder.name)[1])


# --- interruptions ---


class Crash(BaseException):
    """Nothing may catch this: the process is gone."""


@pytest.mark.parametrize("store", ["memory", "disk"])
def test_a_sweep_that_crashed_goes_on_exactly(store, tmp_path):
    changes = {"client_store": store, "engine": "loop"}
    sweep(plan(QUADRATIC, Grid(RATES), tmp_path / "whole", changes))
    heard = 0

    def crash(*_):
        nonlocal heard
        heard += 1
        if heard == 40:  # 6 starts and 34 of 72 rounds: in the midst of the sixth round of the six runs
            raise Crash

    with pytest.raises(Crash):
        sweep(plan(QUADRATIC, Grid(RATES), tmp_path / "broken", changes), crash)
    result = sweep(plan(QUADRATIC, Grid(RATES), tmp_path / "broken", changes))
    assert not result.interrupted
    for name, folder in runs_of(tmp_path / "whole").items():
        metrics, x = trained(tmp_path / "broken" / "runs" / name)
        expected, expected_x = trained(folder)
        assert metrics == expected
        assert torch.equal(x, expected_x)
    assert (tmp_path / "broken" / "sweep.csv").read_text() == (tmp_path / "whole" / "sweep.csv").read_text()


@pytest.mark.filterwarnings("ignore:.*the last bits may differ")
def test_a_sweep_of_an_early_version_goes_on(tmp_path):
    """Killed after one of its two points had ended, and the other had saved two of four rounds."""
    folder = shutil.copytree(Path(__file__).with_name("golden_sweep"), tmp_path / "sweep")
    begun = json.loads((folder / "grid.json").read_text())
    base = {key: value for key, value in begun["first"].items() if key != "algorithm"}
    algorithm = {key: value for key, value in begun["first"]["algorithm"].items() if key != "eta_l"}
    config, grid = base | {"algorithm": algorithm}, Grid(begun["grid"])
    result = sweep(plan(config, grid, folder))
    assert [entry.status for entry in result.entries] == ["finished", "finished"]
    fresh = sweep(plan(config, grid, tmp_path / "fresh"))
    assert [entry.point for entry in result.ranked] == [entry.point for entry in fresh.ranked]
    for name, run in runs_of(tmp_path / "fresh").items():
        torch.testing.assert_close(trained(run)[1], trained_model(folder / "runs" / name))


def test_a_finished_sweep_computes_nothing_again(tmp_path, monkeypatch):
    planned = plan(QUADRATIC, Grid(RATES), tmp_path / "sweep")
    first = sweep(planned)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "sweep" / "runs").rglob("*")}
    monkeypatch.setattr("fedamd.campaigns.sweep.Session", None)
    again = sweep(plan(QUADRATIC, Grid(RATES), tmp_path / "sweep"))
    assert again == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "sweep" / "runs").rglob("*")} == before


def test_a_run_killed_before_its_summary_gets_one(tmp_path):
    planned = plan(QUADRATIC, Grid(RATES), tmp_path / "sweep")
    first = sweep(planned)
    (planned.folders[2] / "summary.json").unlink()
    assert sweep(planned) == first
    assert (planned.folders[2] / "summary.json").exists()


def test_an_interruption_leaves_the_rest_for_later(tmp_path, monkeypatch):
    """After the second group's beginning: the first is finished, the second is cut, the third has not begun."""
    grid = Grid({"seed": [0, 1, 2]})  # three groups of one, since each seed has a problem of its own
    rounds = 0

    def count(_, record):
        nonlocal rounds
        rounds += record.round >= 0

    monkeypatch.setattr("fedamd.campaigns.sweep.deferred_interrupt", lambda: _When(lambda: rounds >= 20))
    result = sweep(plan(QUADRATIC, grid, tmp_path / "sweep"), count)
    assert result.entries[0].statuses == ["finished", "interrupted", "interrupted"]
    assert result.interrupted
    assert result.best is None
    assert not (tmp_path / "sweep" / "best.toml").exists()
    monkeypatch.undo()
    assert sweep(plan(QUADRATIC, grid, tmp_path / "sweep")).entries[0].statuses == ["finished"] * 3


class _When:
    """Stands in for Ctrl-C: pressed once `condition` holds."""

    def __init__(self, condition):
        self._condition = condition

    def __enter__(self):
        return self._condition

    def __exit__(self, *_):
        return None


# --- the best ---


def test_the_best_mean_over_seeds_wins_and_a_setting_that_diverged_once_does_not(tmp_path):
    """Final losses of two seeds: rate 1 has (1, 5), rate 2 has (2, 3), rate 3 (0, diverged): 3, 2.5 and none."""
    grid = Grid({"algorithm.eta_l": [1, 2, 3], "seed": [0, 1]})
    planned = plan(QUADRATIC, grid, tmp_path / "sweep")
    sweep(planned)
    losses = [1, 5, 2, 3, 0, None]
    for folder, loss in zip(planned.folders, losses, strict=True):
        status = "finished" if loss is not None else "diverged"
        summary = {"status": status, "final_accuracy": None, "final_test_loss": loss}
        (folder / "summary.json").write_text(json.dumps(summary))
    result = sweep(planned)
    assert [entry.mean for entry in result.entries] == [3, 2.5, None]
    assert result.best is not None
    assert result.best.point == {"algorithm.eta_l": 2}
    assert [entry.point["algorithm.eta_l"] for entry in result.ranked] == [2, 1]

    accuracies = [0.5, 0.7, 0.9, 0.1, 1.0, 0.9]  # means 0.6, 0.5, 0.95, but the last diverged
    for folder, accuracy in zip(planned.folders, accuracies, strict=True):
        status = "diverged" if accuracy == 1.0 else "finished"
        summary = {"status": status, "final_accuracy": accuracy, "final_test_loss": 1.0}
        (folder / "summary.json").write_text(json.dumps(summary))
    result = sweep(planned)
    assert result.measure == Measure("accuracy")
    assert [entry.mean for entry in result.entries] == [pytest.approx(0.6), pytest.approx(0.5), None]
    assert [entry.status for entry in result.entries] == ["finished", "finished", "diverged/finished"]
    assert result.best is not None
    assert result.best.point == {"algorithm.eta_l": 1}


@pytest.mark.parametrize(("metric", "better"), [("mae", min), ("r2", max)])
def test_the_stated_metric_chooses_in_its_own_direction(metric, better, tmp_path):
    rows = "".join(f"{i / 40},{i * 7 % 40 / 40},{i / 20}\n" for i in range(40))
    (tmp_path / "numbers.csv").write_text("a,b,y\n" + rows)
    numbers = DIGITS | {
        "data": {"name": "csv", "path": str(tmp_path / "numbers.csv"), "target": "y"},
        "partition": {"name": "iid"},
        "metrics": [metric],
    }
    result = sweep(plan(numbers, Grid({"algorithm.eta_l": [0.3, 0.1, 1e-9]}), tmp_path / "sweep"))
    found = {
        folder.name: json.loads((folder / "summary.json").read_text())
        for folder in runs_of(tmp_path / "sweep").values()
    }
    assert len({one[f"final_{metric}"] for one in found.values()}) == 3
    best = better(found.values(), key=lambda one: one[f"final_{metric}"])
    assert result.best.mean == best[f"final_{metric}"]
    assert result.measure.name == metric
    assert json.loads((tmp_path / "sweep" / "sweep.json").read_text())["measure"]["name"] == metric
    assert best[f"best_{metric}"] is not None


def test_what_is_written(tmp_path):
    grid = Grid({"algorithm.eta_l": [0.05, 1e200], "seed": [3, 4]})
    sweep(plan(DIGITS, grid, tmp_path / "sweep"))
    content = json.loads((tmp_path / "sweep" / "sweep.json").read_text())
    assert content["best"] == {"algorithm.eta_l": 0.05}
    good, bad = content["points"]
    summaries = [
        json.loads((tmp_path / "sweep" / "runs" / f"eta_l=0.05,seed={seed}" / "summary.json").read_text())
        for seed in (3, 4)
    ]
    a, b = (summary["final_accuracy"] for summary in summaries)
    assert good == {
        "algorithm.eta_l": 0.05,
        "status": "finished",
        "seeds": 2,
        "final_accuracy": pytest.approx((a + b) / 2),
        "spread": pytest.approx(abs(a - b) / math.sqrt(2)),
    }
    assert bad == {
        "algorithm.eta_l": 1e200, "status": "diverged", "seeds": 2, "final_accuracy": None, "spread": None
    }  # fmt: skip
    with (tmp_path / "sweep" / "sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["status"] for row in rows] == ["finished", "diverged"]
    assert float(rows[0]["final_accuracy"]) == good["final_accuracy"]
    assert rows[1]["final_accuracy"] == ""
    best = tomllib.loads((tmp_path / "sweep" / "best.toml").read_text())
    assert best == load_config(DIGITS, {"algorithm.eta_l": 0.05, "seed": 3}).plain()


# --- what must not be mixed ---


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_of_another_sweep_is_refused_and_left_alone(tmp_path):
    folder = tmp_path / "sweep"
    sweep(plan(QUADRATIC, Grid(RATES), folder))
    before = files(folder)
    with pytest.raises(FedamdError, match=r"begun as another sweep \(rounds was 12 and is 13\)"):
        sweep(plan(QUADRATIC, Grid(RATES), folder, {"rounds": 13}))
    with pytest.raises(FedamdError, match=r"another sweep \(algorithm.steps was 2 and is 3\)"):
        sweep(plan(QUADRATIC, Grid(RATES), folder, {"algorithm.steps": 3}))
    with pytest.raises(FedamdError, match=r"another sweep \(seed was \[0, 1, 2\] and is \[0\]\)"):
        sweep(plan(QUADRATIC, Grid(RATES | {"seed": [0]}), folder))
    with pytest.raises(FedamdError, match=r"another sweep \(cohort was null and is \[2\]\)"):
        sweep(plan(QUADRATIC, Grid(RATES | {"cohort": [2]}), folder))
    assert files(folder) == before


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("not a sweep")
    with pytest.raises(FedamdError, match="is not empty and holds no sweep: choose another --out"):
        sweep(plan(QUADRATIC, Grid(RATES), tmp_path))
    with pytest.raises(FedamdError, match="cannot create"):
        sweep(plan(QUADRATIC, Grid(RATES), tmp_path / "mine.txt"))
    assert os.listdir(tmp_path) == ["mine.txt"]


def test_damaged_files_are_named(tmp_path):
    planned = plan(QUADRATIC, Grid(RATES), tmp_path / "sweep")
    sweep(planned)
    for content, says in (("{", "is not valid JSON"), ("[]", "is damaged: it should hold status")):
        (planned.folders[0] / "summary.json").write_text(content)
        with pytest.raises(FedamdError, match=rf"summary\.json {says}; delete it, and the sweep makes it again"):
            sweep(planned)
    (tmp_path / "sweep" / "grid.json").write_text("[]")
    with pytest.raises(FedamdError, match=r"cannot read .*grid\.json"):
        sweep(planned)


def test_one_process_at_a_time(tmp_path):
    planned = plan(QUADRATIC, Grid(RATES), tmp_path / "sweep")
    (tmp_path / "sweep").mkdir()
    with exclusively(tmp_path / "sweep"), pytest.raises(FedamdError, match="another process is at work in"):
        sweep(planned)
    assert list((tmp_path / "sweep").iterdir()) == []
    sweep(planned)
    (planned.folders[0] / "summary.json").unlink()
    with Folder.open(planned.folders[0]).alone(), pytest.raises(FedamdError, match="another process is at work in"):
        sweep(planned)


def test_a_point_that_cannot_run_is_found_before_anything_begins(tmp_path):
    with pytest.raises(FedamdError, match=r"cohort \(A = 9\) must not exceed clients"):
        plan(QUADRATIC, Grid({"cohort": [2, 9]}), tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()


def test_several_processes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(FedamdError, match="start it without torchrun"):
        sweep(plan(QUADRATIC, Grid(RATES), tmp_path / "sweep"))
