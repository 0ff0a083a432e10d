"""Callbacks: they are told, they may stop a run, and a stopped run goes on exactly."""

import csv
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import fedamd
from fedamd.errors import FedamdError
from fedamd.runs.callbacks import Budget, Callback, CSVLog, EarlyStopping, MLflow, StopAt, WandB
from fedamd.runs.records import Record
from fedamd.runs.run import Run

CONFIG: dict[str, Any] = {
    "data": {"name": "quadratic", "samples": 4, "dimension": 3},
    "clients": 8,
    "cohort": 3,
    "rounds": 12,
    "checkpoint_every": 5,
    "algorithm": {"name": "fedavg", "steps": 2, "small_batch": 2, "eta_l": 0.05},
}


class Diary(Callback):
    """What it was told, in order."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def begin(self, run: Run) -> None:
        self.told.append(f"begin {run.t}")

    def recorded(self, run: Run, record: Record) -> None:  # noqa: ARG002
        self.told.append(f"round {record.round}")

    def checkpointed(self, run: Run) -> None:
        self.told.append(f"checkpoint {run.t}")

    def end(self, run: Run, status: str) -> None:
        self.told.append(f"end {run.t} {status}")


def test_a_callback_is_told_in_order() -> None:
    diary = Diary()
    fedamd.run(CONFIG, rounds=3, checkpoint_every=2, callbacks=[diary])
    assert diary.told == [
        *("begin 0", "round -1", "checkpoint 0", "round 0", "round 1", "checkpoint 2"),
        *("round 2", "checkpoint 3", "end 3 finished"),
    ]


class StopAfter(Callback):
    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def recorded(self, run: Run, record: Record) -> None:  # noqa: ARG002
        if run.t == self.rounds:
            run.stop("enough")


@pytest.mark.parametrize("store", ["memory", "disk"])
def test_a_stopped_run_says_why_and_goes_on_exactly(tmp_path: Path, store: str) -> None:
    """Stopped after round 7, between the checkpoints at 5 and 10."""
    config = CONFIG | {"algorithm": {"name": "scaffold", "steps": 2}, "client_store": store}
    whole = fedamd.run(config, out=tmp_path / "whole")
    stopped = fedamd.run(config, out=tmp_path / "run", callbacks=[StopAfter(7)])
    assert (stopped.summary["status"], stopped.summary["stopped"], stopped.summary["rounds"]) == (
        "stopped",
        "enough",
        7,
    )
    resumed = fedamd.resume(tmp_path / "run")
    assert resumed.summary["status"] == "finished"
    assert torch.equal(whole.x, resumed.x)
    assert [record.round for record in resumed.metrics] == list(range(-1, 12))


def test_a_run_stops_at_its_target() -> None:
    full = fedamd.run(CONFIG)
    losses = [record.test_loss for record in full.metrics[1:]]
    target = losses[4]
    first = next(number for number, loss in enumerate(losses) if loss <= target)
    end = fedamd.run(CONFIG, callbacks=[StopAt(target, "test_loss")])
    assert end.summary["rounds"] == first + 1
    assert end.summary["stopped"].startswith("test_loss reached")


def test_patience_counts_evaluations_without_improvement() -> None:
    """A target that cannot improve: FedAvg with a vanishing step stays where it is, so two evaluations suffice."""
    end = fedamd.run(CONFIG, **{"algorithm.eta_l": 1e-30}, callbacks=[EarlyStopping("test_loss", patience=2)])
    assert end.summary["rounds"] == 2
    assert "has not improved" in end.summary["stopped"]


def test_an_improving_run_is_left_alone() -> None:
    end = fedamd.run(CONFIG, **{"algorithm.small_batch": "full", "cohort": 8}, callbacks=[EarlyStopping(patience=2)])
    assert end.summary["status"] == "finished"


def test_a_budget_ends_after_the_round_that_uses_it_up() -> None:
    """3 clients × 2 steps × 2 samples are 12 gradients a round: 30 are used up in the third."""
    end = fedamd.run(CONFIG, stop={"max_gradients": 30})
    assert end.summary["gradient_samples"] == 36
    assert end.summary["stopped"] == "the budget of 30 gradient samples is used up"


def test_the_first_round_uses_up_a_moment() -> None:
    assert fedamd.run(CONFIG, stop={"max_seconds": 1e-9}).summary["rounds"] == 1


def test_a_config_can_stop_by_patience_and_target() -> None:
    end = fedamd.run(CONFIG, stop={"patience": 2, "metric": "test_loss"}, **{"algorithm.eta_l": 1e-30})
    assert end.summary["rounds"] == 2
    assert fedamd.run(CONFIG, stop={"target": 1e9, "metric": "test_loss"}).summary["rounds"] == 1


def test_a_metric_to_stop_by_that_is_never_measured_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FedamdError, match=r"stop\.metric: there is no 'acuracy' \(did you mean accuracy\?\)"):
        fedamd.run(CONFIG, stop={"target": 0.9, "metric": "acuracy"}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_stopping_goes_by_the_direction_of_ones_own_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A score that is better the higher it is, and below its target, does not end the run."""
    (tmp_path / "own_scores.py").write_text("def score(outputs, targets):\n    return 0.5\n")
    monkeypatch.syspath_prepend(tmp_path)
    config = CONFIG | {"metrics": ["own_scores:score"]}
    assert fedamd.run(config, stop={"target": 0.9}).summary["status"] == "finished"
    assert fedamd.run(config, stop={"target": 0.4}).summary["rounds"] == 1
    sys.modules.pop("own_scores")


def test_own_callbacks_are_named_in_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_callbacks.py").write_text(
        "import fedamd\n"
        "class Two(fedamd.Callback):\n"
        "    def recorded(self, run, record):\n"
        "        if run.t == 2:\n"
        "            run.stop('two')\n"
        "number = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = CONFIG | {"callbacks": ["own_callbacks:Two"]}
    assert fedamd.run(config).summary["stopped"] == "two"
    with pytest.raises(FedamdError, match=r"callbacks: own_callbacks:number gives a int, not a fedamd\.Callback"):
        fedamd.run(CONFIG | {"callbacks": ["own_callbacks:number"]})
    sys.modules.pop("own_callbacks")


class Broken(Callback):
    def recorded(self, run: Run, record: Record) -> None:  # noqa: ARG002
        if run.t == 7:
            raise KeyError("oops")


def test_a_callback_that_raises_is_named_and_the_run_kept(tmp_path: Path) -> None:
    whole = fedamd.run(CONFIG)
    with pytest.raises(FedamdError, match="the callback Broken failed after 7 rounds: KeyError: 'oops'"):
        fedamd.run(CONFIG, out=tmp_path / "run", callbacks=[Broken()])
    assert torch.equal(fedamd.resume(tmp_path / "run").x, whole.x)


def test_every_round_is_a_line_of_csv(tmp_path: Path) -> None:
    fedamd.run(CONFIG, rounds=2, callbacks=[CSVLog(tmp_path / "log.csv")])
    rows = list(csv.DictReader((tmp_path / "log.csv").read_text().splitlines()))
    assert [row["round"] for row in rows] == ["0", "1", "2"]
    assert float(rows[-1]["gradient_samples"]) == 24


def test_callbacks_by_name_write_into_the_runs_folder(tmp_path: Path) -> None:
    """Three rounds, then two more: events of the resumed rounds follow those before them."""
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    fedamd.run(CONFIG | {"callbacks": ["csv", "tensorboard"]}, rounds=3, out=tmp_path / "run")
    fedamd.resume(tmp_path / "run", rounds=5)
    events = accumulators.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert [one.step for one in events.Scalars("measured/test loss")] == [0, 1, 2, 3, 4, 5]
    rows = list(csv.DictReader((tmp_path / "run" / "rounds.csv").read_text().splitlines()))
    assert [row["round"] for row in rows] == ["0", "1", "2", "3", "4", "5"]


def test_a_name_that_is_no_callback_and_a_run_without_a_folder_are_refused() -> None:
    with pytest.raises(FedamdError, match=r"callbacks: there is no 'tensorbord' \(did you mean tensorboard\?\)"):
        fedamd.run(CONFIG | {"callbacks": ["tensorbord"]})
    with pytest.raises(FedamdError, match="callbacks: csv writes into the run's folder, and this run has none"):
        fedamd.run(CONFIG | {"callbacks": ["csv"]})


@pytest.mark.parametrize(("kind", "package"), [(WandB, "wandb"), (MLflow, "mlflow")])
def test_what_is_not_installed_is_said(kind: type[Callback], package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(FedamdError, match=f"{package} is not installed: pip install {package}"):
        kind()


def test_weights_and_biases_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_SILENT", "true")
    fedamd.run(CONFIG, rounds=2, callbacks=[WandB(mode="offline", project="test", dir=str(tmp_path))])
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what MLflow itself uses
def test_mlflow_in_a_local_folder(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    fedamd.run(CONFIG, rounds=2, callbacks=[MLflow()])
    (row,) = mlflow.search_runs(output_format="list")
    assert row.data.metrics["gradient_samples"] == 24
    assert row.data.tags["status"] == "finished"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: EarlyStopping(patience=0), "patience must be a whole number"),
        (lambda: Budget(max_bits=0), "a budget of bits must be above 0"),
    ],
)
def test_bad_numbers_are_refused(make: Any, sentence: str) -> None:
    with pytest.raises(FedamdError, match=sentence):
        make()


def test_what_is_no_callback_is_refused() -> None:
    with pytest.raises(FedamdError, match="is no Callback"):
        fedamd.run(CONFIG, callbacks=[3])  # type: ignore[list-item]
