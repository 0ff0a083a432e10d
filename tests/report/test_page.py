"""The page as text: self-contained, and nothing in its data can break out of it."""

import json
import re

import pytest

from fedamd.report.page import Bars, Facts, Table, Text, build_page, cell, page_data


def data_of(page: str) -> dict[str, object]:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    told: dict[str, object] = json.loads(found)
    return told


def test_sections_arrive_in_order() -> None:
    sections = [
        Facts(title="", facts=[("runs", "3")]),
        Table(title="T", columns=["a"], rows=[[cell(1.5, tone="good")]]),
        Bars(title="B", stacks=[{"label": "x", "values": [1]}], x_label="client", each="client"),
    ]
    told = data_of(build_page("Title", sections, subtitle="below", status="finished"))
    assert told == json.loads(json.dumps(page_data("Title", sections, subtitle="below", status="finished")))
    assert [section["kind"] for section in told["sections"]] == ["facts", "table", "bars"]  # type: ignore[attr-defined]


def test_nothing_breaks_out() -> None:
    evil = "</script><script>alert(1)</script><!--"
    page = build_page(evil, [Text(title=evil, parts=[(evil, evil)])])
    assert "<script>alert" not in page
    assert data_of(page)["title"] == evil


def test_nothing_is_asked_of_a_network() -> None:
    page = build_page("T", [])
    addresses = set(re.findall(r"""(?:https?:)?//[\w.-]+\.\w+[^"'\s]*""", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of SVG, not a place to go to
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", page)
    assert "default-src 'none'" in page


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (float("nan"), "–"), (0.123456, "0.1235"), ("fedamd", "fedamd"), (12, "12")]
)
def test_cells(value: float | str | None, text: str) -> None:
    assert cell(value).text == text
