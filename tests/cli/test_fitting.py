"""Tables of sixty columns: whole columns are left out, no letters."""

import io
import json
from pathlib import Path

from rich.console import Console
from typer.testing import CliRunner

from fedamd.cli.fitting import Column, fitting, print_table
from fedamd.cli.main import app


def test_the_highest_rank_goes_first_and_the_first_column_stays() -> None:
    """Widths 6, 10 and 8 with gaps of 2 are 28 in all; without the second 16."""
    columns = [Column("method", ["a"]), Column("x" * 10, ["1"], rank=2), Column("y" * 8, ["2"], rank=1)]
    assert fitting(columns, 28) == columns
    assert fitting(columns, 27) == [columns[0], columns[2]]
    assert fitting(columns, 3) == columns[:1]


def test_what_just_fits_is_whole() -> None:
    """Widths 6, 10 and 8 with gaps of 2 are 28 in all."""
    console = Console(width=28, file=(text := io.StringIO()))
    print_table([Column("method", ["a"]), Column("x" * 10, ["1"]), Column("y" * 8, ["2"])], console)
    assert text.getvalue().splitlines()[0] == f"method  {'x' * 10}  {'y' * 8}"


def test_what_is_left_out_is_named() -> None:
    console = Console(width=30, file=(text := io.StringIO()))
    print_table(
        [Column("method", ["fedamd"]), Column("final\naccuracy", ["86.20%"]), Column("z" * 29, ["1"], 1)], console
    )
    assert "86.20%" in text.getvalue()
    assert f"left out for lack of space: {'z' * 29}" in " ".join(text.getvalue().split())


def test_comparisons_and_sweeps_fit_sixty_columns(tmp_path: Path, monkeypatch) -> None:
    small = ["--set", "rounds=2", "--set", "clients=12", "--set", "cohort=3"]
    console = Console(width=60, file=(text := io.StringIO()))
    monkeypatch.setattr("fedamd.cli.compare.console", console)
    monkeypatch.setattr("fedamd.cli.sweep.console", console)
    CliRunner().invoke(app, ["compare", *small, "--out", str(tmp_path / "c")], catch_exceptions=False)
    grid = [
        "--grid",
        "algorithm.eta_l=0.1,0.03",
        "--grid",
        "algorithm.small_batch=8,16",
        "--grid",
        "algorithm.p=0.5,0.9",
    ]
    CliRunner().invoke(app, ["sweep", *small, *grid, "--out", str(tmp_path / "s")], catch_exceptions=False)
    lines = [line for line in text.getvalue().splitlines() if str(tmp_path) not in line]
    assert max(map(len, lines)) <= 60
    assert "…" not in text.getvalue()
    best = json.loads((tmp_path / "c" / "comparison.json").read_text())["methods"][0]["final_accuracy"]
    assert f"{100 * best:.2f}%" in text.getvalue()
