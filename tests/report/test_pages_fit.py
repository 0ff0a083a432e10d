"""Every kind of page on a screen and on a phone: nothing sticks out of the window, and all headings are there once."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedamd.campaigns import tune as tuning
from fedamd.campaigns.compare import compare, contestants
from fedamd.campaigns.grid import Grid
from fedamd.campaigns.sweep import plan, sweep
from fedamd.report.tuning import write_page
from fedamd.report.watch import address, watch_server
from fedamd.report.write import report
from fedamd.runs.api import run
from fedamd.studies.leaderboard.board import read_board
from fedamd.studies.leaderboard.publish import boards, publish
from fedamd.studies.leaderboard.store import LeaderboardStore
from fedamd.studies.paper.publish import paper_page

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
SMALL: dict[str, Any] = {
    "rounds": 3,
    "clients": 30,
    "cohort": 5,
    "test_share": 0.3,
    "evaluate_clients_every": 1,
    "failure_rate": 0.2,
    "devices": {"spread": 0.5},
    "metrics": ["f1"],
}
STICKING_OUT = """() => {
  const width = document.documentElement.clientWidth;
  const own = (node) => ["auto", "scroll"].includes(getComputedStyle(node).overflowX);
  const scrolls = (node) => node && (own(node) || scrolls(node.parentElement));
  return [...document.querySelectorAll("body *")].filter((node) => {
    const box = node.getBoundingClientRect();
    return box.width && (box.right > width + 1 || box.left < -1) && !scrolls(node.parentElement);
  }).map((node) => `${node.tagName} ${node.className}: ${node.textContent.slice(0, 40)}`);
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


def run_page(folder: Path) -> Path:
    run(SMALL, out=folder / "run")
    return report(folder / "run")


def compare_page(folder: Path) -> Path:
    compare(contestants([], ["fedamd", "fedavg", "scaffold-m-vr"], SMALL)[0], folder / "compare")
    return report(folder / "compare")


def sweep_page(folder: Path) -> Path:
    grid = {"algorithm.eta_l": [0.1, 0.03, 1e38], "algorithm.p": [0.1, 0.3], "algorithm.steps": [2, 5], "seed": [0, 1]}
    sweep(plan(SMALL, Grid(grid), folder / "sweep"))
    return report(folder / "sweep")


def tune_page(folder: Path) -> Path:
    pytest.importorskip("optuna", reason="Optuna is not installed")
    return write_page(tuning.tune(tuning.plan(SMALL, folder / "tune", trials=4, batch=4)))


def paper(folder: Path) -> Path:
    shutil.copytree(ROOT / "results" / "paper", folder / "paper")
    path = folder / "paper.html"
    path.write_text(paper_page(folder / "paper"), encoding="utf-8")
    return path


def leaderboard(folder: Path) -> Path:
    shutil.copytree(ROOT / "results" / "leaderboard", folder / "leaderboard")
    settings, entrants = read_board(ROOT / "leaderboards")
    publish(boards(settings, entrants, LeaderboardStore(folder / "leaderboard")), folder / "leaderboard")
    return folder / "leaderboard" / "leaderboard.html"


PAGES = {
    "run": run_page,
    "compare": compare_page,
    "sweep": sweep_page,
    "tune": tune_page,
    "paper": paper,
    "leaderboard": leaderboard,
}


@pytest.mark.parametrize("kind", PAGES)
def test_nothing_sticks_out(kind: str, folder: Path, visit: Callable[..., Any]) -> None:
    page = PAGES[kind](folder).as_uri()
    for width in (1280, 390):
        shown = visit(page, width=width, color_scheme="dark" if width == 390 else "light")
        assert shown.evaluate(STICKING_OUT) == []
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        headings = shown.locator("h2").all_inner_texts()
        assert len(headings) == len(set(headings))


def test_a_watched_run_fits_too(folder: Path, visit: Callable[..., Any]) -> None:
    if not (folder / "run").exists():
        run(SMALL, out=folder / "run")
    with watch_server(folder / "run") as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for width in (1280, 390):
            shown = visit(address(server), width=width)
            assert shown.evaluate(STICKING_OUT) == []
            assert "Clients' own tests over the rounds" in shown.locator("h2").all_inner_texts()
            shown.close()
        server.shutdown()


def test_contents_lead_to_their_sections(visit: Callable[..., Any], tmp_path: Path) -> None:
    shown = visit(paper(tmp_path).as_uri())
    links = shown.locator("nav a")
    assert links.all_inner_texts() == shown.locator("h2").all_inner_texts()
    target = links.nth(3).get_attribute("href")
    assert shown.locator(f"{target} h2").inner_text() == links.nth(3).inner_text()
    assert shown.locator("img").count() == 0  # figures drawn for paper would glare in the dark


def test_the_sweep_page_can_be_explored(visit: Callable[..., Any], tmp_path: Path) -> None:
    """3 rates × 2 probabilities × 2 numbers of steps; the largest rate diverges."""
    shown = visit(sweep_page(tmp_path).as_uri())
    heat = shown.locator(".heat")
    assert heat.locator("tbody th").all_inner_texts() == ["0.1", "0.03", "1e+38"]
    assert heat.locator("td.none").all_inner_texts() == ["diverged"] * 2
    shown.locator("select").nth(1).select_option(label="steps")
    assert heat.locator("thead th").all_inner_texts()[1:] == ["2", "5"]
    lines = shown.locator(".plot path.path")
    assert lines.count() == 12
    assert shown.locator(".plot path.path[stroke-dasharray]").count() == 4
    plot = shown.locator(".plot", has=shown.locator("path.path")).first
    plot.scroll_into_view_if_needed()
    box = plot.locator("svg").bounding_box()
    rail = plot.locator(".rail").nth(1)
    x = float(rail.get_attribute("x1"))
    shown.mouse.move(box["x"] + x, box["y"] + 40)
    shown.mouse.down()
    shown.mouse.move(box["x"] + x, box["y"] + 100, steps=3)
    shown.mouse.up()
    assert plot.locator("path.out").count() == 6  # p = 0.3 is on top and stays, p = 0.1 does not
    plot.dblclick(position={"x": 5, "y": 5})
    assert plot.locator("path.out").count() == 0
