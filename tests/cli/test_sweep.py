"""`fedamd sweep` as a person or a script sees it."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fedamd.campaigns.grid import Grid
from fedamd.campaigns.sweep import plan, sweep
from fedamd.cli.main import app, main
from fedamd.report.stored import read_runs
from fedamd.report.write import report
from fedamd.runs import progress as showing
from fedamd.runs.config import load_config
from fedamd.runs.progress import OverallProgress, Progress
from fedamd.runs.records import Record

SMALL = ["--set", "data.name=quadratic", "--set", "clients=5", "--set", "cohort=2", "--set", "rounds=10"]
GRID = ["--grid", "algorithm.eta_l=0.1,1e200", "--grid", 'algorithm.pattern=["0,1", "0,0,1"]', "--grid", "seed=0,1"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fedamd(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["sweep", *words])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_a_table_with_the_best_on_top_and_the_files():
    told = fedamd(*SMALL, *GRID, "--out", "here").stdout
    lines = told.splitlines()
    (head,) = (number for number, line in enumerate(lines) if line.startswith("eta_l"))
    assert lines[head].split() == ["eta_l", "pattern", "test", "loss", "status"]
    assert [line.split()[0] for line in lines[head + 1 : head + 5]] == ["0.1", "0.1", "1e+200", "1e+200"]
    assert [line.split()[-2:] for line in lines[head + 3 : head + 5]] == [["–", "diverged"]] * 2
    assert lines[head + 5 :] == ["here/sweep.csv", "here/best.toml", "here/heatmap.png"]
    best = json.loads(Path("here/sweep.json").read_text())["best"]
    assert json.dumps(best["algorithm.pattern"]) in lines[head + 1]
    assert Path("here/heatmap.png").read_bytes().startswith(b"\x89PNG")


def test_what_reaching_a_target_cost_has_columns():
    """A rate of almost nothing never gets to what the other rate gets to at its best."""
    grid = ["--grid", "algorithm.eta_l=0.1,1e-12"]
    fedamd(*SMALL, *grid, "--out", "before")
    losses = [record.test_loss or 0.0 for record in read_runs([Path("before")])[0].rounds]
    best = min(losses)
    told = fedamd(*SMALL, *grid, "--target", f"test_loss={best!r}", "--out", "here").stdout
    heading = next(line for line in told.splitlines() if "eta_l" in line)
    assert f"to test loss ≤ {best:g}" in " ".join(heading.split())
    content = json.loads(Path("here/sweep.json").read_text())
    assert content["target"] == {"measure": {"name": "test_loss", "higher_is_better": False}, "value": best}
    assert [row["rounds_to_target"] for row in content["points"]] == [1 + losses.index(best), None]
    page = report("here").read_text(encoding="utf-8")
    assert json.dumps(f"rounds\nto test loss ≤ {best:g}") in page


def test_many_runs_share_one_line_of_progress():
    """Eight runs of ten rounds; four of them diverge at once and have nothing left to do."""
    lines = [line for line in fedamd(*SMALL, *GRID).stdout.splitlines() if "8 runs" in line]
    assert 3 <= len(lines) <= 22
    assert lines[-1].split() == ["8", "runs", "round", "80/80", "4", "finished,", "4", "diverged"]


def test_json_is_all_that_is_printed_and_a_finished_sweep_is_told_again():
    told = fedamd(*SMALL, "--grid", "seed=0,1", "--out", "here", "--json")
    assert json.loads(told.stdout) == json.loads(Path("here/sweep.json").read_text())
    assert told.stderr == ""
    assert fedamd(*SMALL, "--grid", "seed=0,1", "--out", "here", "--json").stdout == told.stdout
    assert not Path("here/heatmap.png").exists()  # nothing but the seed varies


def test_an_interrupted_sweep_ends_with_130_and_says_how_to_go_on(monkeypatch):
    result = sweep(plan({"data": {"name": "quadratic"}}, Grid({"seed": [0]}), Path("here"), {"rounds": 1}))
    result.entries[0].statuses[0] = "interrupted"
    monkeypatch.setattr("fedamd.campaigns.sweep.sweep", lambda *_: result)
    told = fedamd(*SMALL, "--grid", "seed=0", "--out", "here", code=130)
    assert "continue with the same command and --out here" in told.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "a sweep needs at least one --grid"),
        (["--grid", "seed"], "--grid seed: expected key=value,value"),
        (["--grid", "sede=1,2"], "sede: unknown key (did you mean seed?)"),
        (["--grid", "cohort=1,200"], "cohort (A = 200) must not exceed"),
        (["--grid", "seed=1,x"], "seed"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing_behind(words, says, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fedamd", "sweep", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr()
    assert (ended.value.code, told.out) == (2, "")
    assert told.err.startswith("error: ")
    assert says in told.err
    assert told.err.count("\n") == 1
    assert list(Path().iterdir()) == []


# --- bars ---


class Heard:
    """A run as progress hears of it."""

    def __init__(self, config, t=0, status="running"):
        self.config, self.t, self.status = config, t, status

    @property
    def live(self):
        return self.status == "running"


def record(loss=None):
    return Record(0, loss)


def test_runs_of_one_method_are_told_apart(capsys):
    configs = [load_config({"rounds": 1, "algorithm": {"p": p}}) for p in (0.2, 0.7)]
    with Progress(among=configs) as progress:
        for config in configs:
            progress(Heard(config, 1, "finished"), record(loss=0.5))
    assert capsys.readouterr().out.splitlines() == [
        "fedamd p=0.2  round    1/1  loss 0.5",
        "fedamd p=0.7  round    1/1  loss 0.5",
    ]


def test_one_bar_for_all(monkeypatch):
    """Two of three runs have been heard of: 4 rounds of 10 done by one, the other diverged and done with its 10."""
    monkeypatch.setattr(showing, "console", showing.Console(force_terminal=True, quiet=True))
    config = load_config({"rounds": 10})
    progress = OverallProgress([10, 10, 10])
    progress(Heard(config, 4), record())
    progress(Heard(config, 1, "diverged"), record())
    (task,) = progress._bar.tasks
    assert (task.description, task.completed, task.total) == ("3 runs", 14, 30)
    assert task.fields["news"] == "0 finished, 1 diverged"
