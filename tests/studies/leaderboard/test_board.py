"""Reading a board: entrants, settings, and mistakes in words."""

import re

import pytest

from fedamd.algorithms.space import Linear
from fedamd.errors import FedamdError
from fedamd.studies.leaderboard.board import read_board


def test_a_line_is_an_entrant(board):
    """What is fixed is not searched; what is shared goes to methods that know it."""
    line = '"ours" = { name = "fedcm", alpha = 0.2, search = { beta_1 = { linear = [0.5, 0.9] } } }\n'
    with (board / "methods.toml").open("a", encoding="utf-8") as file:
        file.write(line)
    (setting,), entrants = read_board(board)
    ours = entrants[-1]
    assert ours.label == "ours"
    assert ours.space.keys() == {"eta_l", "eta_s", "beta_1"}
    assert ours.space["beta_1"] == Linear(0.5, 0.9)
    assert ours.section(setting.method | {"epochs": 3}, {"eta_l": 0.1}) == {
        "steps": 2,
        "small_batch": 8,
        "name": "fedcm",
        "alpha": 0.2,
        "eta_l": 0.1,
    }
    assert [setting.kept(rung) for rung in range(3)] == [3, 1, 1]


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("methods.toml", "fedcm = {}", "fedcmm = {}", "did you mean fedcm"),
        ("methods.toml", "fedcm = {}", "fedcm = { alhpa = 1 }", "fedcm has no alhpa (did you mean alpha?)"),
        ("methods.toml", "fedcm = {}", "fedcm = { search = { alpha = 3 } }", "fedcm.search.alpha: should be { log ="),
        ("methods.toml", "fedcm = {}", "fedcm = 1", "fedcm should be a section"),
        ("small.toml", "seeds = [1, 2]", "seeds = [101]", "seed 101 is in both seeds and tuning_seeds"),
        ("small.toml", "rungs = [1, 2]", "rungs = [2, 1]", "rungs should be rounds in increasing order"),
        ("small.toml", "trials = 3", "", "trials is missing"),
        ("small.toml", "trials = 3", "trails = 3", "unknown key trails (did you mean trials?)"),
        ("small.toml", "cohort = 3", "cohort = 30", "small.toml: the configuration: cohort"),
        ("small.toml", "title", "= title", "not valid TOML"),
    ],
)
def test_mistakes(board, file, old, new, message):
    text = (board / file).read_text(encoding="utf-8")
    assert old in text
    (board / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(FedamdError, match=re.escape(message)):
        read_board(board)


def test_the_board_of_this_project_is_in_order():
    """Every registered method is an entrant."""
    from pathlib import Path

    from fedamd.algorithms import ALGORITHMS

    settings, entrants = read_board(Path(__file__).parents[3] / "leaderboards")
    assert {entrant.options["name"] for entrant in entrants} == set(ALGORITHMS)
    assert len(settings) >= 5


def test_a_folder_without_methods(tmp_path):
    with pytest.raises(FedamdError, match=r"has no methods\.toml"):
        read_board(tmp_path)
