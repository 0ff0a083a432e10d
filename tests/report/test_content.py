"""What a page of runs says."""

from collections.abc import Callable
from pathlib import Path

from fedamd.report.content import (
    page_sections,
    page_status,
    page_subtitle,
    page_title,
    role_bars,
)
from fedamd.report.page import Bars, Facts
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
    assert kinds == ["Facts", "Curves", "Bars", "Bars", "Text", "Text"]  # one method is compared with none
    assert len(page_sections(runs, rebuild=False)) == len(kinds) - 1
    facts = page_sections(runs)[0]
    assert isinstance(facts, Facts)
    assert dict(facts.facts)["rounds"] == "4"


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
