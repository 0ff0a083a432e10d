"""`fedamd report` writes a page."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedamd.cli.main import app
from fedamd.errors import FedamdError
from fedamd.runs.api import run


def test_the_page_is_where_the_command_says(tmp_path: Path) -> None:
    run(out=tmp_path / "one", rounds=2, clients=6, cohort=2)
    printed = CliRunner().invoke(app, ["report", str(tmp_path / "one")], catch_exceptions=False)
    assert printed.stdout == f"{tmp_path}/one/report.html\n"
    page = (tmp_path / "one" / "report.html").read_text(encoding="utf-8")
    assert "fedamd on digits" in page
    assert len(page) < 100_000
    out = tmp_path / "new" / "page.html"
    flags = ["report", str(tmp_path / "one"), "--out", str(out), "--target", "test_loss=1.5"]
    CliRunner().invoke(app, flags, catch_exceptions=False)
    assert '"target": {"measure": "test_loss", "value": 1.5}' in out.read_text(encoding="utf-8")
    with pytest.raises(FedamdError, match="cannot write the page"):
        CliRunner().invoke(
            app, ["report", str(tmp_path / "one"), "--out", str(out / "page.html")], catch_exceptions=False
        )
