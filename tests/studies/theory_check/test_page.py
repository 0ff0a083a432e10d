"""The page says what agrees and what does not."""

import json
import math
from pathlib import Path

from fedamd.studies.theory_check.page import markdown, write
from fedamd.studies.theory_check.protocol import FULL, QUICK
from fedamd.studies.theory_check.results import Expectation, Figure, Line, StudyResult

FINDING = StudyResult(
    "demo",
    "Over q",
    "a problem",
    ("q", "rounds"),
    [["1", 2.0], ["2", None]],
    [
        Expectation("a ratio", 0.0, 1.0).judge(0.5),
        Expectation("a slope", 0.0, math.inf).judge(-2.0),
        Expectation("a floor", 0.0, 1.0).judge(None),
    ],
    Figure(
        "q", "rounds", [Line("measured", [1, 2], [3, 4], [2, 3], [4, 5]), Line("theory", [1, 2], [3, 3], dashed=True)]
    ),
    ("A remark.",),
)


def test_disagreement_is_said_first() -> None:
    text = markdown([FINDING], FULL, "pictures", "fedamd theory")
    assert "1 of 3 expectations were met." in text
    assert "* **Over q**: a slope: -2, expected 0 … inf (DISAGREES)." in text
    assert "* **Over q**: a floor: –, expected 0 … 1 (not measured)." in text
    assert "a ratio: 0.5" not in text
    assert "| 2 | – |" in text
    assert "![Over q](pictures/demo.png)" in text
    assert "too short to conclude" not in text
    assert "too short to conclude" in markdown([FINDING], QUICK, "pictures", "fedamd theory --quick")


def test_files(tmp_path: Path) -> None:
    page = write([FINDING], FULL, tmp_path / "results" / "theory", tmp_path / "docs" / "page.md", "fedamd theory")
    assert "(../results/theory/demo.png)" in page.read_text()
    picture = tmp_path / "results" / "theory" / "demo.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    (told,) = json.loads((tmp_path / "results" / "theory" / "findings.json").read_text())
    assert [verdict["verdict"] for verdict in told["verdicts"]] == ["agrees", "DISAGREES", "not measured"]
    assert told["verdicts"][1]["high"] is None
