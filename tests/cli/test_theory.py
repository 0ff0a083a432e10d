"""`fedamd theory` from the command line, on a scale of seconds."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fedamd.cli import theory
from fedamd.studies.theory_check.protocol import Scale
from fedamd.studies.theory_check.studies import STUDIES


def test_measures_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """‖∇F(x_0)‖² is 2.326·10⁻³, and 2.3·10⁻³ is reached within some rounds, so even this scale reaches its target."""
    monkeypatch.setattr("fedamd.studies.theory_check.protocol.QUICK", Scale(seeds=1, base=6, target=2.3e-3, long=12))
    app = typer.Typer()
    app.callback()(lambda: None)
    theory.register(app)
    words = ["theory", "--quick", "--out", str(tmp_path / "page.md"), "--results", str(tmp_path / "numbers")]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0
    assert "Theory against measurement" in result.stdout
    findings = {one["name"]: one for one in json.loads((tmp_path / "numbers" / "findings.json").read_text())}
    assert list(findings) == [study.name for study in STUDIES]
    assert all((tmp_path / "numbers" / f"{name}.png").stat().st_size < 150_000 for name in findings)
    bounded = [
        verdict["value"]
        for finding in findings.values()
        for verdict in finding["verdicts"]
        if verdict["text"].startswith("largest ratio of measured to proved") and verdict["value"] is not None
    ]
    assert len(bounded) >= 2
    assert 0 < max(bounded) < 1
    assert "`fedamd theory --quick`" in (tmp_path / "page.md").read_text()
