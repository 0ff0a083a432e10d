"""The table that compares methods."""

from collections.abc import Callable
from pathlib import Path

from fedamd.report.comparison import Column, comparison_table, tally
from fedamd.report.stored import read_runs
from fedamd.runs.api import run

Train = Callable[..., Path]


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
    (percent,) = Column("n", "key", 100, percent=True, best=max).cells([[0.125]])
    assert (percent.text, percent.tone) == ("12.50%", "")


def test_without_classes_there_are_no_accuracies(tmp_path: Path) -> None:
    run({"data": {"name": "quadratic"}, "clients": 4, "cohort": 2, "rounds": 2}, out=tmp_path / "one")
    table = comparison_table(read_runs([tmp_path]), 0.75)
    assert table.columns == ["method", "status", "test loss", "gradients ×10⁵\nin all", "×32 Mbit\nin all"]


def test_statuses_are_counted_where_they_differ() -> None:
    assert tally(["finished", "finished"]) == "finished"
    assert tally(["finished", "diverged", "finished"]) == "2 finished, 1 diverged"


def test_a_divergence_stands_out(trained: Train) -> None:
    table = comparison_table(read_runs([trained("a", rounds=40, **{"algorithm.eta_l": 1e30})]), 0.75)
    assert (table.rows[0][1].text, table.rows[0][1].tone) == ("diverged", "bad")
