"""What a page of runs says."""

from collections.abc import Callable
from pathlib import Path

import torch

import fedamd
from fedamd.report.content import (
    page_sections,
    page_status,
    page_subtitle,
    page_title,
    repeat,
    role_bars,
)
from fedamd.report.page import Bars, Curves, Facts, Text
from fedamd.report.stored import read_runs
from fedamd.runs.folder import SUMMARY

Train = Callable[..., Path]


def test_head(trained: Train) -> None:
    runs = read_runs([trained("a", seed=1), trained("b", seed=2)])
    assert page_title(runs) == "fedamd on digits"
    assert page_subtitle(runs) == "6 clients, 3 in a round · partition classes · model mlp"
    assert page_status(runs) == "finished"
    more = [*runs, *read_runs([trained("c", **{"algorithm.name": "fedavg"})])]
    assert page_title(more) == "2 methods on digits"


def test_the_status_of_a_run_that_goes_on(trained: Train) -> None:
    folder = trained("a", rounds=3)
    (folder / SUMMARY).unlink()
    assert page_status(read_runs([folder])) == "round 3 of 3"
    assert page_status(read_runs([trained("b"), folder])) == "fedamd, round 3 of 3"


def test_sections(trained: Train) -> None:
    runs = read_runs([trained("a")])
    kinds = [type(section).__name__ for section in page_sections(runs)]
    assert kinds == ["Facts", "Text", "Curves", "Bars", "Bars", "Text", "Text"]  # one method is compared with none
    facts, again = page_sections(runs)[:2]
    assert isinstance(facts, Facts)
    told = dict(facts.facts)
    assert (told["outcome"], told["rounds"], told["clients' replies"]) == ("finished", "4", "all 12")
    assert told["final accuracy"] == f"{100 * runs[0].records[-1].metrics['accuracy']:.2f}%"
    assert isinstance(again, Text)
    assert again.parts == [("Command", f"fedamd run {runs[0].path}/config.toml")]


def test_a_run_with_objects_is_repeated_from_python(tmp_path: Path) -> None:
    data = fedamd.Dataset.of(torch.eye(6), torch.tensor([0, 1] * 3), name="mine")
    model = torch.nn.Linear(6, 2)
    settings = {"clients": 2, "cohort": 1, "rounds": 1, "partition": {"name": "iid"}}
    fedamd.run(settings, dataset=data, model=model, out=tmp_path / "own")
    (told,) = repeat(read_runs([tmp_path / "own"])).parts
    assert told == ("Command", f'fedamd.run("{tmp_path}/own/config.toml", dataset=…, model=…)')


def test_how_many_clients_failed_is_said_first(trained: Train) -> None:
    run = read_runs([trained("a", failure_rate=0.5)])[0]
    missing = sum(record.missing for record in run.rounds)
    facts = page_sections([run])[0]
    assert isinstance(facts, Facts)
    assert dict(facts.facts)["clients' replies"] == f"{missing} never came, of 12"


def test_metrics_of_ones_own_are_drawn(trained: Train) -> None:
    (curves,) = [one for one in page_sections(read_runs([trained("a", metrics=["f1"])])) if isinstance(one, Curves)]
    assert [measure for measure, _, _ in curves.panels] == ["accuracy", "test_loss", "loss", "f1"]


def test_simulated_time_is_an_axis_where_there_are_devices(trained: Train) -> None:
    with_devices, without = (
        next(one for one in page_sections(read_runs([folder])) if isinstance(one, Curves))
        for folder in (trained("a", devices={}), trained("b"))
    )
    assert [axis[0] for axis in with_devices.axes] == ["rounds", "gradients", "traffic", "time"]
    assert [axis[0] for axis in without.axes] == ["rounds", "gradients", "traffic"]


def test_a_run_that_has_just_begun_has_a_page(trained: Train) -> None:
    folder = trained("a")
    (folder / SUMMARY).unlink()
    (folder / "metrics.jsonl").write_text("")
    assert page_sections(read_runs([folder]))


def test_roles_of_every_round(trained: Train) -> None:
    """FedAMD's cohort of three is anchors and miners; FedAvg's clients all do the same and need no picture."""
    runs = read_runs([trained("a"), trained("b", **{"algorithm.name": "fedavg"})])
    (bars,) = role_bars(runs)
    assert isinstance(bars, Bars)
    assert bars.title == "Anchors and miners of fedamd"
    assert [sum(counts) for counts in zip(*(stack["values"] for stack in bars.stacks), strict=True)] == [3] * 4


def test_who_did_not_reply_is_shown(trained: Train) -> None:
    (bars,) = role_bars(read_runs([trained("a", failure_rate=0.5)]))
    assert isinstance(bars, Bars)
    assert "no reply" in [stack["label"] for stack in bars.stacks]
    assert [sum(counts) for counts in zip(*(stack["values"] for stack in bars.stacks), strict=True)] == [3] * 4
