"""`fedamd leaderboard` from the command line: a small board of its own, gone through in two calls."""

from pathlib import Path

from typer.testing import CliRunner

from fedamd.cli.main import app
from studies.leaderboard.conftest import SETTING


def test_a_board_is_run_published_and_grows_by_a_line(tmp_path: Path) -> None:
    board, out = tmp_path / "board", tmp_path / "results"
    board.mkdir()
    (board / "small.toml").write_text(SETTING, encoding="utf-8")
    (board / "methods.toml").write_text("fedavg = {}\n", encoding="utf-8")
    flags = ["leaderboard", str(board), "--out", str(out)]
    none = CliRunner().invoke(app, [*flags, "--minutes", "0"], catch_exceptions=False)
    assert none.exit_code == 0  # publishes what there is: nothing
    first = CliRunner().invoke(app, flags, catch_exceptions=False)
    assert first.exit_code == 0
    stored = {path: path.read_text(encoding="utf-8") for path in out.rglob("*.jsonl")}
    assert stored
    (board / "methods.toml").write_text("fedavg = {}\nfedcm = {}\n", encoding="utf-8")
    second = CliRunner().invoke(app, [*flags, "--choosing", str(tmp_path / "choosing.md")], catch_exceptions=False)
    assert second.exit_code == 0
    for path, text in stored.items():  # the first method's results are those of the first call
        assert path.read_text(encoding="utf-8").startswith(text)
    assert "fedcm" in (tmp_path / "choosing.md").read_text(encoding="utf-8")


def test_an_unknown_setting_is_named(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["leaderboard", "leaderboards", "--only", "mars", "--out", str(tmp_path / "out")])
    assert told.exit_code != 0
    assert "mars" in told.output + str(told.exception)
    assert not (tmp_path / "out").exists()
