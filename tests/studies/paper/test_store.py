"""Finished runs on disk."""

from pathlib import Path

import pytest

from fedamd.errors import FedamdError
from fedamd.files import append_line
from fedamd.runs.config import Config, load_config
from fedamd.studies.paper.experiments import EXPERIMENTS
from fedamd.studies.paper.store import PaperStore, config_hash, cumulative, per_round


def config(**changes: object) -> Config:
    return load_config(EXPERIMENTS["table2"].cells[0].config(0.1, 1.0, 0, 400), changes)


def test_how_a_run_is_executed_is_not_in_its_name() -> None:
    elsewhere = config(device="cuda", engine="vector", oracle="autograd", checkpoint_every=7)
    assert config_hash(elsewhere) == config_hash(config())


@pytest.mark.parametrize("change", [{"seed": 1}, {"rounds": 5}, {"cohort": 3}, {"algorithm.eta_l": 0.2}])
def test_what_is_run_is(change: dict[str, object]) -> None:
    assert config_hash(config(**change)) != config_hash(config())


def test_the_name_of_a_run_stays() -> None:
    """The first line of the results that are kept: with another name, they would all be computed again."""
    assert config_hash(config()) == "ecbec7ec10d5"


def test_costs_by_round() -> None:
    """Rounds that cost (5, 2), (3, 1), (5, 2) end at (5, 2), (8, 3), (13, 5)."""
    totals = [(5, 2), (8, 3), (13, 5)]
    short = per_round(totals)
    assert short == {"costs": [[5, 2], [3, 1]], "rounds_cost": [0, 1, 0]}
    assert cumulative(**short) == {"gradients": [5, 8, 13], "bits": [2, 3, 5]}


def test_a_line_that_is_no_run(tmp_path: Path) -> None:
    path = tmp_path / "table2.jsonl"
    path.write_text('{"hash": "a", "status": "finished"}\n{"hash": "b", "sta\n')
    with pytest.raises(FedamdError, match=r"table2\.jsonl, line 2: not a finished run; remove that line"):
        PaperStore(tmp_path)


def test_a_last_line_cut_short_is_not_there(tmp_path: Path) -> None:
    """A process was killed while it wrote; the next line takes its place."""
    path = tmp_path / "table2.jsonl"
    path.write_text('{"hash": "a", "status": "finished"}\n{"hash": "b", "sta')
    assert len(PaperStore(tmp_path)) == 1
    append_line(path, '{"hash": "c", "status": "finished"}')
    assert len(path.read_text().splitlines()) == len(PaperStore(tmp_path)) == 2


def test_without_a_file_nothing_is_there(tmp_path: Path) -> None:
    assert PaperStore(tmp_path / "none").get(config_hash(config())) is None
