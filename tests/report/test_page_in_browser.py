"""The page in a real browser: it draws, toggles, zooms, sorts, and fits a phone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedamd.report.content import page_sections
from fedamd.report.page import Curves, HeatMaps, PageSection, Table, build_page, cell
from fedamd.report.stored import read_runs
from fedamd.runs.api import run

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a page about two seeds of FedAMD and one of FedAvg."""
    folder = tmp_path_factory.mktemp("runs")
    small: dict[str, Any] = {"rounds": 4, "clients": 6, "cohort": 3}
    run(small | {"algorithm": {"p": 0.5}}, out=folder / "a")
    run(small | {"algorithm": {"p": 0.5}, "seed": 1}, out=folder / "b")
    run(small | {"algorithm": {"name": "fedavg"}}, out=folder / "c")
    return write(folder, page_sections(read_runs([folder])))


def write(folder: Path, sections: list[PageSection]) -> str:
    path = folder / "page.html"
    path.write_text(build_page("Title", sections), encoding="utf-8")
    return path.as_uri()


def test_everything_is_drawn(visit: Visit, page: str) -> None:
    shown = visit(page)
    assert shown.locator("section h2").all_inner_texts() == [
        "How to repeat it",
        "Curves",
        "Comparison",
        "Samples of the clients (digits, partition classes)",
        "Anchors and miners of fedamd",
        "Configuration",
        "Environment",
    ]
    assert shown.locator(".plot path.line").count() == 3 * 2  # three measures of two methods
    assert shown.locator(".plot path.band").count() >= 1
    assert shown.locator("table tbody tr").count() == 2


def test_the_axis_can_be_chosen(visit: Visit, page: str) -> None:
    shown = visit(page)
    before = shown.locator(".plot path.line").first.get_attribute("d")
    shown.get_by_role("button", name="gradients", exact=True).click()
    assert shown.locator(".plot text.axis").first.text_content() == "gradient samples"
    assert shown.locator(".plot path.line").first.get_attribute("d") != before
    assert shown.locator("[data-key=gradients]").get_attribute("aria-pressed") == "true"
    assert shown.locator("[data-key=rounds]").get_attribute("aria-pressed") == "false"


def test_the_pointer_reads_values_and_the_legend_hides_lines(visit: Visit, page: str) -> None:
    shown = visit(page)
    plot = shown.locator(".plot").first
    plot.hover()
    assert plot.locator(".tip div").count() == 2
    shown.locator(".legend button", has_text="fedavg").click()
    plot.hover()
    assert plot.locator(".tip div span").all_inner_texts() == ["fedamd"]
    assert shown.locator(".plot path.line").count() == 3


def test_dragging_zooms_and_a_button_resets(visit: Visit, page: str) -> None:
    shown = visit(page)
    labels = shown.locator(".plot").first.locator("text")
    before = labels.all_text_contents()
    box = shown.locator(".plot").first.bounding_box()
    shown.mouse.move(box["x"] + 100, box["y"] + 80)
    shown.mouse.down()
    shown.mouse.move(box["x"] + 200, box["y"] + 80, steps=3)
    shown.mouse.up()
    assert labels.all_text_contents() != before
    shown.get_by_role("button", name="reset zoom").click()
    assert labels.all_text_contents() == before


def test_losses_can_be_logarithmic(visit: Visit, page: str) -> None:
    shown = visit(page)
    before = shown.locator(".plot path.line").all()[-1].get_attribute("d")
    shown.get_by_role("button", name="log loss").click()
    assert shown.locator(".plot path.line").all()[-1].get_attribute("d") != before


def loss_labels(visit: Visit, folder: Path, losses: list[float]) -> list[str]:
    """What stands beside the axis of a curve with these values."""
    points = {"x": {"rounds": list(range(len(losses)))}, "mean": losses, "low": losses, "high": losses}
    chart = Curves(
        title="C",
        axes=[("rounds", "rounds", "rounds", "number")],
        panels=[("loss", "loss", "number")],
        lines=[{"label": "a", "diverged": False, "points": {"loss": points}}],
    )
    return visit(write(folder, [chart])).locator(".plot text[text-anchor=end]").all_text_contents()


def test_narrow_ranges_have_distinct_labels(visit: Visit, tmp_path: Path) -> None:
    labels = loss_labels(visit, tmp_path, [3.541, 3.542])
    assert len(labels) > 2
    assert len(set(labels)) == len(labels)


def test_one_spike_does_not_set_the_scale(visit: Visit, tmp_path: Path) -> None:
    """99 losses up to 2 and one of 10²²: the axis ends at 3."""
    labels = loss_labels(visit, tmp_path, [*([1.0, 2.0] * 49), 2.0, 1e22])
    assert 2 <= max(map(float, labels)) <= 3


def test_light_and_dark(visit: Visit, page: str) -> None:
    shown = visit(page, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert shown.evaluate(ground) == "rgb(14, 19, 24)"
    shown.locator("#theme").click()
    assert shown.evaluate(ground) == "rgb(244, 246, 248)"
    assert visit(page, color_scheme="light").evaluate(ground) == "rgb(244, 246, 248)"


def test_tables_sort_numbers_as_numbers_and_keep_gaps_last(visit: Visit, tmp_path: Path) -> None:
    rows = [[cell("a"), cell(10)], [cell("b"), cell(9)], [cell("c"), cell(None)]]
    shown = visit(write(tmp_path, [Table(title="T", columns=["name", "value"], rows=rows)]))
    names = shown.locator("tbody td:first-child")
    shown.get_by_role("button", name="value").click()
    assert names.all_inner_texts() == ["b", "a", "c"]
    shown.get_by_role("button", name="value").click()
    assert names.all_inner_texts() == ["a", "b", "c"]
    assert shown.locator("th").nth(1).get_attribute("aria-sort") == "descending"
    shown.get_by_role("button", name="name").click()
    shown.get_by_role("button", name="name").click()
    assert names.all_inner_texts() == ["c", "b", "a"]


def test_columns_without_room_wait_behind_a_button(visit: Visit, tmp_path: Path) -> None:
    columns = [f"{'long' * 6} {number}" for number in range(4)]
    rows = [[cell(f"a{number}") for number in range(4)]]
    shown = visit(write(tmp_path, [Table(title="T", columns=columns, rows=rows)]), width=600)
    assert shown.locator("tbody td:visible").all_inner_texts() == ["a0", "a1"]
    more = shown.get_by_role("button", name=f"More columns: {columns[2]}, {columns[3]}")
    more.click()
    assert shown.locator("tbody td:visible").count() == 4
    shown.get_by_role("button", name="Fewer columns").click()
    shown.set_viewport_size({"width": 1280, "height": 900})
    shown.locator(".more").wait_for(state="hidden")
    assert shown.locator("tbody td:visible").count() == 4


def test_small_maps_show_every_value(visit: Visit, tmp_path: Path) -> None:
    one = {"label": "FedAMD", "rows": ["0.1"], "columns": ["1", "2"], "cells": [[("71", 0.71), ("–", None)]]}
    shown = visit(write(tmp_path, [HeatMaps(title="Rates", down="η_l", across="η_s", maps=[one])]))
    assert shown.locator(".heat td").all_inner_texts() == ["71", "–"]
    assert shown.locator(".heat td.none").count() == 1


def test_a_phone_needs_no_sideways_scrolling(visit: Visit, page: str) -> None:
    shown = visit(page, width=360)
    assert shown.evaluate("document.documentElement.scrollWidth") <= 360


def test_nothing_is_fetched(browser: Any, page: str) -> None:
    context = browser.new_context()
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    context.new_page().goto(page)
    context.close()
    assert [address for address in asked if not address.startswith("data:")] == [page]
