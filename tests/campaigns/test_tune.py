"""Tuning: who goes on, equal costs, going on after an interruption, and mistakes in words."""

import builtins
import csv
import json
import re
import signal
import tomllib
from types import SimpleNamespace

import pytest

pytest.importorskip("optuna")

from fedamd.algorithms.space import Choice, Linear, Log
from fedamd.campaigns.suggest import Suggester, Told, parse_range
from fedamd.campaigns.tune import TuningBudget, plan, tune
from fedamd.errors import FedamdError
from fedamd.metrics import Measure
from fedamd.report.tuning import write_page
from fedamd.runs.records import Record
from fedamd.runs.session import Sink

SMALL = {
    "clients": 10,
    "cohort": 3,
    "rounds": 9,
    "checkpoint_every": 1,
    "model": {"name": "softmax"},
    "algorithm": {"name": "fedavg", "steps": 2, "small_batch": 8},
}


def rows(folder) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "trials.csv").read_text(encoding="utf-8").splitlines()))


class AfterRounds(Sink):
    """Presses Ctrl-C after so many records."""

    def __init__(self, records: int) -> None:
        self.left = records

    def recorded(self, run, record) -> None:  # noqa: ARG002
        self.left -= 1
        if not self.left:
            signal.raise_signal(signal.SIGINT)


def test_a_third_goes_on_twice(tmp_path):
    """Nine trials to round 1, three to round 3, one to round 9: 9·1 + 3·2 + 1·6 = 21 rounds where a grid takes 81."""
    result = tune(plan(SMALL, tmp_path / "t", trials=9, batch=9))
    assert result.rounds == 21
    shares = sorted(trial.share for trial in result.trials)
    assert shares == [1 / 9] * 6 + [1 / 3] * 2 + [1.0]
    assert result.best is not None
    assert {path.name for path in (tmp_path / "t" / "runs").iterdir()} == {f"trial-{n:04d}" for n in range(9)}
    best = tomllib.loads((tmp_path / "t" / "best.toml").read_text(encoding="utf-8"))
    assert best["algorithm"]["eta_l"] == result.best.point["algorithm.eta_l"]
    assert result.trials[0].point == {"algorithm.eta_l": 0.03, "algorithm.eta_s": 1.0}  # the published point
    environment = json.loads((tmp_path / "t" / "runs" / "trial-0003" / "environment.json").read_text(encoding="utf-8"))
    assert {"engine", "oracle", "precision"} <= environment["execution"].keys()
    assert "Trials" in write_page(result).read_text(encoding="utf-8")


@pytest.mark.parametrize("records", [5, 15, 24])
def test_continued_it_is_the_tuning_that_never_stopped(records, tmp_path):
    """Two batches of three; interrupted in the first or in the second, then the same command again."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    tune(plan(SMALL, whole, trials=6, batch=3))
    assert tune(plan(SMALL, parts, trials=6, batch=3), AfterRounds(records)).interrupted
    assert not tune(plan(SMALL, parts, trials=6, batch=3)).interrupted
    assert rows(parts) == rows(whole)


def test_equal_gradients():
    """30 samples a round, evaluated in every round: half of 100 allows one round, the whole three."""

    costs = [{"gradient_samples": 30 * (t + 1), "bits_up": 0, "bits_down": 0} for t in range(5)]
    records = [Record(t, metrics={"accuracy": (t + 1) / 10}, costs=cost) for t, cost in enumerate(costs)]
    run = SimpleNamespace(status="running", records=records, experiment=SimpleNamespace(measure=Measure()))
    budget = TuningBudget.parse("gradients=100")
    assert budget.score(run, 0.5) == pytest.approx(0.1)
    assert budget.score(run, 1.0) == pytest.approx(0.3)
    assert budget.spent(records) == 150
    run.experiment.measure = Measure("accuracy", higher_is_better=False)
    assert budget.score(run, 1.0) == pytest.approx(-0.3)


def test_a_trial_that_diverges_is_shown_and_never_best(tmp_path):
    search = {"algorithm.eta_l": Choice((0.1, 3e38)), "algorithm.eta_s": Choice((1.0,))}
    result = tune(plan(SMALL | {"rounds": 36}, tmp_path / "t", trials=6, batch=6, search=search))  # 3 bad rounds a rung
    bad = [trial for trial in result.trials if trial.point["algorithm.eta_l"] == 3e38]
    assert bad
    assert all(trial.status == "diverged" and trial.score is None for trial in bad)
    assert result.best is not None
    assert result.best.point["algorithm.eta_l"] == 0.1


def test_the_sampler_depends_on_what_it_is_told_alone():
    space = {"x": Log(0.01, 1.0), "y": Linear(0.0, 1.0), "z": Choice(("a", "b"))}
    told = [Told({"x": 0.1, "y": n / 12, "z": "a"}, n / 12 if n % 2 else None, False) for n in range(12)]
    first = Suggester(space, {}, seed=3).batch(1, 4, told)
    again = Suggester(space, {}, seed=3)
    again.batch(0, 5, [])
    assert again.batch(1, 4, told) == first
    assert Suggester(space, {}, seed=4).batch(1, 4, told) != first


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b=log:0.01:1", ("a.b", Log(0.01, 1.0))),
        ("a.b=linear:0:1", ("a.b", Linear(0.0, 1.0))),
        ("a.b=choice:3,x", ("a.b", Choice((3, "x")))),
    ],
)
def test_ranges_from_the_command_line(text, expected):
    assert parse_range(text) == expected


@pytest.mark.parametrize("text", ["a", "a=log:1", "a=log:0:1", "a=log:1:0.1", "a=cosine:0:1", "a=choice:"])
def test_ranges_that_are_none(text):
    with pytest.raises(FedamdError, match=re.escape(f"--search {text}: should be KEY=log:LOW:HIGH")):
        parse_range(text)


@pytest.mark.parametrize("text", ["rounds", "rounds=-1", "rounds=x", "bits=inf"])
def test_budgets_that_are_none(text):
    with pytest.raises(FedamdError, match=r"should be a cost and a number above 0"):
        TuningBudget.parse(text)


def test_mistakes(tmp_path):
    with pytest.raises(FedamdError, match="there is no 'money'"):
        TuningBudget.parse("money=3")
    with pytest.raises(FedamdError, match=r"algorithm\.mu = 0\.1, which cannot run: .*algorithm\.mu: unknown key"):
        plan(SMALL, tmp_path, search={"algorithm.mu": Log(0.1, 1.0)})
    with pytest.raises(FedamdError, match="the budget is 10 rounds, but the config's runs end after 9"):
        plan(SMALL, tmp_path, budget=TuningBudget("rounds", 10.0))


def test_another_tuning_is_refused(tmp_path):
    tune(plan(SMALL, tmp_path / "t", trials=1))
    with pytest.raises(FedamdError, match="was begun with another space"):
        tune(plan(SMALL, tmp_path / "t", trials=1, search={"algorithm.eta_l": Log(0.1, 1.0)}))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(FedamdError, match="is not empty and holds no tuning"):
        tune(plan(SMALL, tmp_path / "other", trials=1))


def test_without_optuna(tmp_path, monkeypatch):
    real = builtins.__import__

    def absent(name, *rest, **named):
        if name == "optuna":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(FedamdError, match=r"pip install fedamd\[tune\]"):
        tune(plan(SMALL, tmp_path / "t", trials=1))
    assert not (tmp_path / "t").exists()
