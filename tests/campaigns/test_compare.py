"""Comparisons: which configs are compared, that they share their problem, and what is written."""

import csv
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from fedamd.campaigns.compare import TARGET, compare, contestants, row
from fedamd.errors import FedamdError
from fedamd.metrics import Measure, Target
from fedamd.report.stored import read_run
from fedamd.runs.config import Config, load_config
from fedamd.runs.records import Record
from fedamd.runs.run import Run

SMALL = """
rounds = 3
clients = 6
cohort = 3
[model]
name = "mlp"
hidden = 8
[algorithm]
name = "fedamd"
p = 0.5
eta_l = 0.07
steps = 2
small_batch = 4
start_up = "zeros"
"""


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "problem.toml"
    path.write_text(SMALL)
    return path


def small(**algorithm: Any) -> Config:
    return load_config(
        {"rounds": 3, "clients": 6, "cohort": 3, "algorithm": {"steps": 2, "small_batch": 4} | algorithm}
    )


def test_a_files_options_are_its_methods_own_but_for_the_shared_ones(problem: Path) -> None:
    """FedPAGE has a p too, but another one; SCAFFOLD has a start_up of its own."""
    configs, notes = contestants([problem], ["fedamd", "fedpage", "scaffold"])
    own, page, scaffold = (config.plain()["algorithm"] for config in configs)
    assert (own["p"], own["start_up"]) == (0.5, "zeros")
    assert (page["p"], scaffold["start_up"]) == (0.5, "full")  # their defaults
    assert [options["eta_l"] for options in (own, page, scaffold)] == [0.07] * 3
    assert notes == []


def test_a_change_goes_to_every_method_that_has_it(problem: Path) -> None:
    changes = {"algorithm.start_up": "full", "algorithm.eta_l": 0.2, "rounds": 9}
    configs, notes = contestants([problem], ["fedamd", "fedavg"], changes)
    first, second = (config.plain() for config in configs)
    assert first["algorithm"]["start_up"] == "full"
    assert [first["algorithm"]["eta_l"], second["algorithm"]["eta_l"]] == [0.2, 0.2]
    assert [first["rounds"], second["rounds"]] == [9, 9]
    assert notes == ["fedavg: no option start_up, left as it is"]


def test_several_files_are_several_methods(problem: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(SMALL.replace("p = 0.5", "p = 0.9"))
    configs, _ = contestants([problem, other], changes={"seed": 4})
    assert [config.algorithm.options["p"] for config in configs] == [0.5, 0.9]
    assert [config.seed for config in configs] == [4, 4]


@pytest.mark.parametrize(
    ("algorithms", "changes", "says"),
    [
        (["fedamd", "fedavg"], {"algorithm.etal": 1}, r"none of fedamd, fedavg has this option \(did you mean eta_l"),
        (["fedamd", "fedavg"], {"algorithm.eta_l": -1}, "^fedamd: algorithm.*eta_l"),
        (["fedamd", "fedavgg"], {}, "did you mean fedavg"),
        (["fedamd"], {"algorithm.name": "fedavg"}, "takes its methods from --algorithms"),
    ],
)
def test_mistakes_are_sentences(problem: Path, algorithms: list[str], changes: dict[str, Any], says: str) -> None:
    with pytest.raises(FedamdError, match=says):
        contestants([problem], algorithms, changes)


def test_methods_by_name_need_one_problem(problem: Path) -> None:
    with pytest.raises(FedamdError, match="2 were given"):
        contestants([problem, problem], ["fedamd", "fedavg"])


def test_other_problems_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FedamdError, match=r"configs 1 and 2 differ in seed \(0 and 5\)"):
        compare([small(), load_config(small().plain(), {"seed": 5})], tmp_path / "out")
    with pytest.raises(FedamdError, match="needs two methods"):
        compare([small()], tmp_path / "out")
    (tmp_path / "file").touch()
    with pytest.raises(FedamdError, match="is not empty"):
        compare([small(), small(p=0.5)], tmp_path)


def test_the_same_start_and_the_same_cohorts_for_all(tmp_path: Path) -> None:
    """x_0 has the same accuracy; in the rounds of anchors alone (τ = 2) the samples are those the cohort owns."""
    comparison = compare([small(tau=2), small(tau=2, eta_l=0.3)], tmp_path / "out")
    first, second = (read_run(comparison.folder / entry["folder"]).records for entry in comparison.rows)
    assert first[0].accuracy == second[0].accuracy
    assert [one.gradient_samples for one in first] == [one.gradient_samples for one in second]


def test_a_method_that_diverges_does_not_stop_the_others(tmp_path: Path) -> None:
    entries = [small(tau=2, eta_l=1e30), small(name="fedavg")]
    comparison = compare([one.changed({"rounds": 9}) for one in entries], tmp_path / "out")
    assert [entry["status"] for entry in comparison.rows] == ["diverged", "finished"]
    assert comparison.rows[0]["rounds"] < 9
    assert comparison.target == Target(Measure(), TARGET)


def test_an_interruption_ends_the_comparison(tmp_path: Path) -> None:
    def interrupt(one: Run, _: Record) -> None:
        if one.t == 1:
            signal.raise_signal(signal.SIGINT)

    comparison = compare([small(), small(name="fedavg")], tmp_path / "out", listen=interrupt)
    assert [(entry["method"], entry["status"]) for entry in comparison.rows] == [("fedamd", "interrupted")]
    assert not (tmp_path / "out" / "fedavg").exists()


def test_what_is_written(tmp_path: Path) -> None:
    comparison = compare([small(), small(), small(name="fedavg")], tmp_path / "out", target=0.01)
    told = json.loads((tmp_path / "out" / "comparison.json").read_text())
    target = {"measure": {"name": "accuracy", "higher_is_better": True}, "value": 0.01}
    assert told == {"target": target, "target_accuracy": 0.01, "methods": comparison.rows}
    with (tmp_path / "out" / "comparison.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [entry["method"] for entry in rows] == ["fedamd #1", "fedamd #2", "fedavg"]
    assert [entry["folder"] for entry in rows] == ["fedamd-1", "fedamd-2", "fedavg"]
    assert [entry["rounds_to_target"] for entry in rows] == ["1", "1", "1"]
    assert read_run(tmp_path / "out" / "fedavg").target == Target(Measure(), 0.01)


def test_a_row() -> None:
    """0.5 is first reached in round 1, the second: 20 gradient samples and 3 + 4 bits; the start-up does not count."""

    def measured(t: int, accuracy: float, gradient_samples: int, up: int, down: int) -> Record:
        costs = {"gradient_samples": gradient_samples, "bits_up": up, "bits_down": down}
        return Record(t, 1.0, {"test_loss": 2.0, "accuracy": accuracy}, costs=costs, seconds=1.5)

    records = [
        measured(-1, 0.6, 99, 99, 99),
        measured(0, 0.4, 10, 1, 2),
        measured(1, 0.5, 20, 3, 4),
        measured(2, 0.3, 30, 5, 6),
    ]
    told = row("a", "finished", records, Target(Measure(), 0.5), Measure())
    assert (told["final_accuracy"], told["best_accuracy"]) == (0.3, 0.5)
    assert (told["rounds_to_target"], told["gradient_samples_to_target"], told["bits_to_target"]) == (2, 20, 7)
    assert (told["rounds"], told["gradient_samples"], told["bits"], told["seconds"]) == (3, 30, 11, 6.0)
    assert row("a", "running", [], Target(Measure(), 0.5), Measure())["rounds"] is None
    loss = Measure("test_loss", higher_is_better=False)
    assert row("a", "finished", records, Target(loss, 2.0), loss)["rounds_to_target"] == 1
    assert row("a", "finished", records, Target(loss, 1.9), loss)["rounds_to_target"] is None
