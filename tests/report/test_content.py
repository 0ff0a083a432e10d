"""What a page of runs says."""

from collections.abc import Callable
from pathlib import Path

from fedamd.report.content import (
    Column,
    comparison_table,
    page_sections,
    page_status,
    page_subtitle,
    page_title,
    role_bars,
)
from fedamd.report.page import Bars, Facts
from fedamd.report.stored import read_runs
from fedamd.runs.records import SUMMARY

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
    assert kinds == ["Facts", "Curves", "Table", "Bars", "Bars", "Text", "Text"]
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


def test_a_row_for_every_method(trained: Train) -> None:
    names = {"a": "fedamd", "b": "fedavg"}
    runs = read_runs([trained(f"{key}{s}", seed=s, **{"algorithm.name": names[key]}) for key in names for s in (0, 1)])
    table = comparison_table(runs, 0.0001)
    assert [[cell.text for cell in row[:2]] for row in table.rows] == [["fedamd", "finished"], ["fedavg", "finished"]]
    at = list(table.columns).index("rounds\nto 0.01%")
    assert [row[at].text for row in table.rows] == ["1 ± 0", "1 ± 0"]


def test_columns_mark_the_best_mean_over_seeds() -> None:
    """Means 2 and 3; ± is the sample standard deviation √((1² + 1²)/1) of (1, 3), which is 1.4."""
    first, second, third = Column("n", "key", best=min).cells([[1, 3], [3, 3], [None, 1]])
    assert (first.text, first.tone) == ("2 ± 1.4", "best")
    assert (second.text, second.tone) == ("3 ± 0", "")
    assert (third.text, third.value) == ("1 of 2", None)
    (percent,) = Column("n", "key", 100, "%", max).cells([[0.12345]])
    assert (percent.text, percent.tone) == ("12.35%", "")
