"""Our numbers beside the paper's, worked out by hand."""

import csv
import io

import pytest
from paper_support import made_outcome, made_run

from fedamd.studies.paper.table import (
    ACCURACY,
    COMMUNICATION,
    GRADIENTS,
    ROUNDS,
    as_csv,
    footnote,
    markdown,
    rows,
    texts,
)

RUNS = [made_run(0.84, 70, seed=0), made_run(0.86, 90, seed=1), made_run(0.85, 80, seed=2)]


def test_means_over_seeds_and_deviations() -> None:
    """(70 + 90 + 80)/3 = 80 rounds of 10⁵ gradients and 32 Mbit. The paper printed 40.8, 566.9, 318 and 76.4 %."""
    (row,) = rows("table2", [made_outcome("FedAvg", RUNS)])
    assert [row.here(q) for q in (ROUNDS, GRADIENTS, COMMUNICATION)] == [80, 80, 80]
    assert row.here(ACCURACY) == pytest.approx(85.0)
    assert row.deviation(ROUNDS) == pytest.approx(100 * (80 / 318 - 1))
    assert row.deviation(GRADIENTS) == pytest.approx(100 * (80 / 40.8 - 1))
    assert row.deviation(ACCURACY) == pytest.approx(8.6)
    costs = ["80", "318", "-75 %", "80.0", "40.8", "+96 %", "80.0", "566.9", "-86 %"]
    accuracy = ["85.0", "76.4", "+8.6"]
    assert texts([row])[0] == ["FedAvg", "0.1, 1", *costs, *accuracy, "70, 90, 80", "84.0, 86.0, 85.0"]


def test_a_seed_that_never_gets_there_leaves_no_mean() -> None:
    (row,) = rows("table2", [made_outcome("SCAFFOLD", [made_run(0.8, 100), made_run(0.1)])])
    assert row.here(ROUNDS) is None
    assert row.deviation(ROUNDS) is None
    assert row.here(ACCURACY) == pytest.approx(45)
    assert "some never" in texts([row])[0]
    assert texts([row])[0][-2] == "100, never"
    assert "did not reach 75 %" in footnote([row])


def test_a_run_that_diverged_has_no_accuracy() -> None:
    """Whatever it had before: 0 and 80 % are 40 % on average."""
    (row,) = rows("table2", [made_outcome("FedPAGE", [made_run(0.8, 9), made_run(0.7, 9, status="diverged")])])
    assert row.here(ACCURACY) == pytest.approx(40)


def test_unfinished_cells_are_marked() -> None:
    told = rows("table2", [made_outcome("FedAvg", RUNS, finalists=1), made_outcome("SCAFFOLD", RUNS)])
    assert [line[0] for line in texts(told)] == ["FedAvg *", "SCAFFOLD"]
    assert "FedAvg: 1 of 3" in footnote(told)
    assert "SCAFFOLD: " not in footnote(told)


def test_a_figure_has_no_numbers_of_the_paper() -> None:
    (row,) = rows("figure1", [made_outcome("FedAvg", RUNS)])
    assert row.printed is None
    assert texts([row])[0] == ["FedAvg", "0.1, 1", "80", "80.0", "80.0", "85.0", "70, 90, 80", "84.0, 86.0, 85.0"]


def test_markdown_has_a_table_for_each_panel() -> None:
    text = markdown("Title", rows("table2", [made_outcome("FedAvg", RUNS), made_outcome("FedAvg", RUNS, cohort=40)]))
    assert [line for line in text.splitlines() if line.startswith("#")] == ["# Title", "## 20 clients", "## 40 clients"]
    widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert widths == {17}


def test_csv_has_a_line_for_each_seed() -> None:
    lines = list(csv.DictReader(io.StringIO(as_csv(rows("table2", [made_outcome("FedAvg", [*RUNS, made_run(0.1)])])))))
    assert [line["rounds"] for line in lines] == ["70", "90", "80", ""]
    assert lines[0]["accuracy"] == "84.0"
    assert lines[0]["paper_accuracy"] == "76.4"
    assert (lines[0]["eta_l"], lines[0]["seed"]) == ("0.1", "0")
