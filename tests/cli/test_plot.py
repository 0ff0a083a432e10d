"""`fedamd plot` on a real run."""

from pathlib import Path

from typer.testing import CliRunner

from fedamd.cli.main import app
from fedamd.runs.api import run


def test_the_picture_is_where_the_command_says(tmp_path: Path) -> None:
    run(out=tmp_path / "one", rounds=2, clients=6, cohort=2)
    printed = CliRunner().invoke(app, ["plot", str(tmp_path / "one")], catch_exceptions=False)
    assert printed.stdout == f"{tmp_path}/one/curves.png\n"
    assert (tmp_path / "one" / "curves.png").stat().st_size > 10_000
    out = tmp_path / "two.svg"
    CliRunner().invoke(app, ["plot", str(tmp_path / "one"), "--out", str(out)], catch_exceptions=False)
    assert "<svg" in out.read_text()
