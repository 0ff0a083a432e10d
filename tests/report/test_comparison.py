"""The table that compares methods."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedamd.metrics import Measure, Target
from fedamd.report.comparison import MetricColumn, comparison_table, tally
from fedamd.report.stored import read_runs
from fedamd.runs.api import run

Train = Callable[..., Path]
GOAL = Target(Measure(), 0.75)


def test_a_row_for_every_method(trained: Train) -> None:
    names = {"a": "fedamd", "b": "fedavg"}
    runs = read_runs([trained(f"{key}{s}", seed=s, **{"algorithm.name": names[key]}) for key in names for s in (0, 1)])
    table = comparison_table(runs, Target(Measure(), 0.0001))
    assert [row[0].text for row in table.rows] == ["fedamd", "fedavg"]
    assert "status" not in table.columns  # all have finished
    at = list(table.columns).index("rounds\nto 0.01%")
    assert [row[at].text for row in table.rows] == ["1 ± 0", "1 ± 0"]


def test_columns_mark_the_best_mean_over_seeds() -> None:
    """Means 2 and 3; ± is the sample standard deviation √((1² + 1²)/1) of (1, 3), which is 1.414."""
    first, second, third = MetricColumn("n", "key", best=min).cells([[1, 3], [3, 3], [None, 1]])
    assert (first.text, first.tone) == ("2 ± 1.414", "best")
    assert (second.text, second.tone) == ("3 ± 0", "")
    assert (third.text, third.value) == ("1 of 2", None)
    (percent,) = MetricColumn("n", "key", Measure().text, max).cells([[0.125]])
    assert (percent.text, percent.tone) == ("12.50%", "")


def test_without_classes_there_are_no_accuracies(tmp_path: Path) -> None:
    run({"data": {"name": "quadratic"}, "clients": 4, "cohort": 2, "rounds": 2}, out=tmp_path / "one")
    table = comparison_table(read_runs([tmp_path]), GOAL)
    assert table.columns == [
        "method", "final\ntest loss", "best\ntest loss", "total\ngradients", "total\nsent"
    ]  # fmt: skip


def test_the_stated_metric_comes_first_and_the_smallest_error_is_best(tmp_path: Path) -> None:
    numbers: dict[str, Any] = {
        "data": {"name": "csv", "path": str(tmp_path / "numbers.csv"), "target": "y"},
        "clients": 4, "cohort": 2, "rounds": 3, "metrics": ["mae"], "partition": {"name": "iid"},
    }  # fmt: skip
    lines = [f"{i / 40},{(i * 7 % 40) / 40},{i / 20}" for i in range(40)]
    (tmp_path / "numbers.csv").write_text("a,b,y\n" + "\n".join(lines) + "\n")
    for rate in (0.2, 1e-9):
        run(numbers, out=tmp_path / "runs" / str(rate), **{"algorithm.eta_l": rate})
    table = comparison_table(read_runs([tmp_path / "runs"]), GOAL)
    assert list(table.columns[1:4]) == ["final\nmae", "best\nmae", "test loss"]
    values = [row[1].value for row in table.rows]
    assert [row[1].tone for row in table.rows] == ["best" if value == min(values) else "" for value in values]

    mae = Target(Measure("mae", higher_is_better=False), sum(values) / 2)  # only the better one gets below it
    table = comparison_table(read_runs([tmp_path / "runs"]), mae)
    at = list(table.columns).index(f"rounds\nto mae ≤ {mae.value:g}")
    assert [row[at].value is None for row in table.rows] == [value == max(values) for value in values]


def test_the_worst_tenth_of_clients_has_a_column(trained: Train) -> None:
    evaluated = {"test_share": 0.3, "evaluate_clients_every": 4}
    runs = read_runs([trained("a", **evaluated), trained("b", **evaluated | {"algorithm.p": 0.9})])
    table = comparison_table(runs, GOAL)
    at = list(table.columns).index("worst tenth\nof clients")
    assert [row[at].value for row in table.rows] == [
        run.records[-1].clients["accuracy"]["worst_decile"] for run in runs
    ]


def test_statuses_are_counted_where_they_differ() -> None:
    assert tally(["finished", "finished"]) == "finished"
    assert tally(["finished", "diverged", "finished"]) == "2 finished, 1 diverged"


def test_a_divergence_stands_out(trained: Train) -> None:
    table = comparison_table(read_runs([trained("a", rounds=40, **{"algorithm.eta_l": 1e30})]), GOAL)
    assert (table.rows[0][1].text, table.rows[0][1].tone) == ("diverged", "bad")
