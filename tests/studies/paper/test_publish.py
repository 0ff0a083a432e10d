"""What a reproduction leaves behind, through the command line."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from paper_support import EXPERIMENT, TINY
from typer.testing import CliRunner

from fedamd.cli.main import app
from fedamd.data import where
from fedamd.errors import FedamdError
from fedamd.studies.paper import publish as module
from fedamd.studies.paper.experiments import EXPERIMENTS
from fedamd.studies.paper.publish import publish
from fedamd.studies.paper.reproduce import reproduce

KEPT = Path(__file__).parents[3] / "results" / "paper"


@pytest.fixture
def tiny_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(module.EXPERIMENTS, "tiny", EXPERIMENT)
    list(reproduce([EXPERIMENT], tmp_path, TINY, lambda *_: None))
    return tmp_path


def test_tables_figures_and_verdicts_stand_beside_the_store(tiny_results: Path) -> None:
    results = publish(tiny_results, TINY, [EXPERIMENT])
    assert [outcome.label for outcome in results["tiny"]] == ["FedAvg", "FedAMD (sequential)"]
    written = {path.name for path in tiny_results.iterdir()}
    assert written == {"tiny.jsonl", "tiny.md", "tiny.csv", "tiny.png", "tiny-rates.png", "claims.md"}
    assert "| FedAvg |" in (tiny_results / "tiny.md").read_text()


def test_figures_are_drawn_again_only_after_new_runs(tiny_results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(tiny_results, TINY, [EXPERIMENT])
    drawn: list[Path] = []
    monkeypatch.setattr(module, "draw_curves", lambda _, path: drawn.append(path))
    publish(tiny_results, TINY, [EXPERIMENT])
    assert drawn == []
    fewer = replace(EXPERIMENT, cells=EXPERIMENT.cells[:1])
    publish(tiny_results, TINY, [fewer])
    assert drawn == [tiny_results / "tiny.png"]


def test_nothing_finished_nothing_written(tmp_path: Path) -> None:
    assert publish(tmp_path, TINY, [EXPERIMENT]) == {}
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FedamdError, match="holds no finished cell"):
        CliRunner().invoke(app, ["report", "--paper", str(tmp_path)], catch_exceptions=False)


def test_a_page_about_runs_needs_runs() -> None:
    with pytest.raises(FedamdError, match="give the folders of runs"):
        CliRunner().invoke(app, ["report"], catch_exceptions=False)


def test_the_page_of_the_kept_results(tmp_path: Path) -> None:
    """The page says of every experiment whether it was run, and on what, and shows every panel of Table 2."""
    shutil.copytree(KEPT, tmp_path, dirs_exist_ok=True)
    out = tmp_path / "page.html"
    printed = CliRunner().invoke(app, ["report", "--paper", str(tmp_path), "--out", str(out)], catch_exceptions=False)
    assert printed.stdout == f"{out}\n"
    page = out.read_text(encoding="utf-8")
    assert len(page) < 2_500_000
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    titles = [section["title"] for section in data["sections"]]
    place = titles.index("Table 2: all methods, K = 10, b' = 64, 40 clients")
    assert [section["kind"] for section in data["sections"][place : place + 2]] == ["table", "curves"]
    claims = next(section for section in data["sections"] if section["title"] == "The paper's claims")
    assert claims["note"] == "Computed from the runs below."  # nothing is left that could change a verdict
    facts = dict(data["sections"][0]["facts"])
    waiting = data["sections"][0]["note"].removeprefix("Not run yet: ").removesuffix(".").split(", ")
    assert waiting == [name for name in EXPERIMENTS if not (KEPT / f"{name}.jsonl").exists()]
    assert facts["experiments"] == f"{len(EXPERIMENTS) - len(waiting)} of {len(EXPERIMENTS)}"
    assert facts["made on"] == "CPU, x86_64, PyTorch 2.13, Python 3.11; NVIDIA H200, PyTorch 2.11, Python 3.12"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(where("fashion-mnist") is None, reason="Fashion-MNIST is not installed")
def test_a_quick_reproduction_from_end_to_end(tmp_path: Path) -> None:
    """FedAMD's two kinds, each with 2 pairs, told again with their curves: 8 lines; then nothing is computed.

    That the other methods' cells can run is tested with their configs and with the methods themselves.
    """
    command = ["reproduce", "table2", "--quick", "--only", "FedAMD", "--rounds", "2", "--out", str(tmp_path)]
    first = CliRunner().invoke(app, command, catch_exceptions=False)
    store = tmp_path / "quick" / "table2.jsonl"
    lines = store.read_text().splitlines()
    assert len(lines) == 8
    assert "FedAMD (sequential)" in first.stdout
    assert "not yet run" in first.stdout
    assert len(list(store.parent.rglob("table2.md"))) == 1
    second = CliRunner().invoke(app, command, catch_exceptions=False)
    assert store.read_text().splitlines() == lines
    assert "round " not in second.stdout  # no run told of its rounds
