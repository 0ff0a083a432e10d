"""Running a small board: what is stored, what is run again, and a new entrant."""

import json

import pytest

from fedamd.errors import FedamdError
from fedamd.studies.leaderboard.board import read_board
from fedamd.studies.leaderboard.publish import boards, choosing_page, publish
from fedamd.studies.leaderboard.run import run_board, stored
from fedamd.studies.leaderboard.store import LeaderboardStore


def lines(folder) -> list[dict]:
    return [json.loads(text) for text in (folder / "small.jsonl").read_text(encoding="utf-8").splitlines()]


def test_a_board_is_run_once_and_a_new_entrant_alone_is_run_later(board, tmp_path):
    """Each of two methods: 3 trials to round 1, the best one to round 2 on two tuning seeds, then two seeds."""
    out = tmp_path / "out"
    assert run_board(*read_board(board), LeaderboardStore(out))
    first = lines(out)
    assert len(first) == 2 * (3 + 2 + 2)
    assert {(line["seed"], line["rounds"]) for line in first} == {(101, 1), (101, 2), (102, 2), (1, 2), (2, 2)}
    assert all(("accuracy" in line) == (line["seed"] in (1, 2)) for line in first)
    reported = [line for line in first if "accuracy" in line]
    assert all(0 <= line["worst_decile"] <= min(1.0, max(line["accuracy"]) + 0.2) for line in reported)
    assert all(0 < line["seconds"][0] < line["seconds"][1] for line in reported), "two rounds, evaluated after each"
    assert {(line["label"], *line["memory"]) for line in reported} == {("fedavg", 1, 0), ("fedcm", 2, 0)}
    assert run_board(*read_board(board), LeaderboardStore(out))
    assert lines(out) == first
    with (board / "methods.toml").open("a", encoding="utf-8") as file:
        file.write("fedvarp = {}\n")
    settings, entrants = read_board(board)
    assert stored(settings[0], entrants, LeaderboardStore(out)).keys() == {"fedavg", "fedcm"}
    assert run_board(settings, entrants, LeaderboardStore(out))
    assert lines(out)[: len(first)] == first
    assert {line["label"] for line in lines(out)[len(first) :]} == {"fedvarp"}
    told = boards(settings, entrants, LeaderboardStore(out))
    assert {one.label for one in told[0].standings["bits"]} == {"fedavg", "fedcm", "fedvarp"}
    paths = publish(told, out)
    assert all(path.stat().st_size > 0 for path in paths)
    assert "**" in choosing_page(told)


def test_a_trial_that_goes_on_is_the_run_from_its_start(board, tmp_path):
    """Made anew from round 0, without what a rung left in memory, the last rung has the same scores."""
    settings, entrants = read_board(board)
    run_board(settings, entrants, LeaderboardStore(tmp_path / "one"))
    for line in lines(tmp_path / "one"):
        if line["rounds"] == 1:  # all that a second machine knows
            folder = tmp_path / "two"
            folder.mkdir(exist_ok=True)
            with (folder / "small.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    run_board(settings, entrants, LeaderboardStore(tmp_path / "two"))
    mine = {line["hash"]: line["score"] for line in lines(tmp_path / "one")}
    assert {line["hash"]: line["score"] for line in lines(tmp_path / "two")} == mine


def test_out_of_time(board, tmp_path):
    """Nothing is begun, and nothing is complete."""
    assert not run_board(*read_board(board), LeaderboardStore(tmp_path / "out"), seconds=0)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["no JSON", "{}", '{"hash": "12", "accuracy": []}'])
def test_a_foreign_store(text, tmp_path):
    (tmp_path / "small.jsonl").write_text(text + "\n", encoding="utf-8")
    with pytest.raises(FedamdError, match=r"small\.jsonl, line 1: not a finished run of a leaderboard"):
        LeaderboardStore(tmp_path)
