"""The page: one HTML file with everything in it, for a browser that need not be online.

A page is a title and sections. A section is plain data; the scripts beside this file draw it:

    page = build_page("Table 2", [
        Facts(title="", facts=[("methods", "8")]),
        Table(title="Rounds to 75%", columns=["method", "paper", "here", "verdict"],
              rows=[[cell("FedAMD"), cell(45), cell(44), cell("holds", tone="good")]]),
    ])
    Path("table2.html").write_text(page, encoding="utf-8")
"""

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from string import Template
from typing import Any, Literal

Tone = Literal["", "best", "good", "warn", "bad"]
Format = Literal["number", "percent", "bytes"]


@dataclass(frozen=True, kw_only=True)
class PageSection:
    """Something on the page, with a heading above it and a remark below, where they are not empty."""

    title: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Facts(PageSection):
    """Names and values, as tiles."""

    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Curves(PageSection):
    """Lines with bands in panels that share their axis, zoom and legend.

    `lines` are {"label": …, "diverged": …, "points": {measure: points}} with points = {"x": {axis: […]}, "mean": […],
    "low": […], "high": […]}. A line that diverged does not set the scale of the others.
    """

    axes: Sequence[tuple[str, str, str, Format]]  # key, label at the axis, name on the button, how its values read
    panels: Sequence[tuple[str, str, Format]]  # measure, heading, how its values read
    lines: Sequence[dict[str, Any]]
    target: dict[str, Any] | None = None  # {"measure": …, "value": …}: a line across that panel


@dataclass(frozen=True, kw_only=True)
class Bars(PageSection):
    """Stacked bars, numbered from `first`: `stacks` are {"label": …, "values": […]}, one value a bar."""

    stacks: Sequence[dict[str, Any]]
    x_label: str
    each: str  # what a bar is, as in "client 7"
    first: int = 0


@dataclass(frozen=True)
class TableCell:
    """A value to sort by, and how it reads."""

    value: float | str | None
    text: str
    tone: Tone = ""


@dataclass(frozen=True, kw_only=True)
class Table(PageSection):
    """A table that sorts by any column; a verdict is a cell with a tone."""

    columns: Sequence[str]
    rows: Sequence[Sequence[TableCell]]


@dataclass(frozen=True, kw_only=True)
class HeatMap(PageSection):
    """The best value for every pair of two keys' values.

    `keys` are {"label": …, "values": [texts]}; `points` are {"at": [the number of its value of every key], "value": …,
    "text": …, "label": …} with value None where there is none.
    """

    keys: Sequence[dict[str, Any]]
    points: Sequence[dict[str, Any]]
    measure: str
    higher: bool  # whether more is better


@dataclass(frozen=True, kw_only=True)
class HeatMaps(PageSection):
    """Small maps side by side, on one scale of colours.

    `maps` are {"label": …, "rows": [texts], "columns": [texts], "cells": rows of (text, from 0 (bad) to 1 or None)}.
    """

    down: str  # what the rows are
    across: str
    maps: Sequence[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Parallel(PageSection):
    """Parallel coordinates, a line for every run.

    `axes` are {"label": …, "ticks": [(place, text)]} with places from 0 to 1; `lines` are {"at": [place or None, for
    every axis], "good": from 0 to 1 or None, "label": lines of text}.
    """

    axes: Sequence[dict[str, Any]]
    lines: Sequence[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Text(PageSection):
    """Named texts shown as they are, folded away until asked for unless they are to be `open`."""

    parts: Sequence[tuple[str, str]]
    open: bool = False


def cell(value: float | str | None, text: str | None = None, tone: Tone = "") -> TableCell:
    """A cell that reads as its value unless told otherwise; – where there is none."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return TableCell(None, text or "–", tone)
    return TableCell(value, text or (value if isinstance(value, str) else f"{value:.4g}"), tone)


def build_page(
    title: str, sections: Sequence[PageSection], *, subtitle: str = "", status: str = "", contents: bool = False
) -> str:
    """The page as HTML: heading, a line below it, a badge with the status, and the sections from top to bottom.

    With `contents`, the headings of the sections stand before them, as links.
    """
    return render(page_data(title, sections, subtitle=subtitle, status=status, contents=contents))


def render(data: Mapping[str, Any]) -> str:
    """Page data as HTML. No value can break out: it travels as JSON in which "<" is escaped, and is shown as text."""
    return Template(_part("page.html")).substitute(
        title=html.escape(data["title"]),
        style=_part("page.css"),
        script="".join(map(_part, ("chart.js", "space.js", "page.js"))),
        data=json.dumps(data, allow_nan=False).replace("<", "\\u003c"),
    )


def page_data(
    title: str,
    sections: Sequence[PageSection],
    *,
    subtitle: str = "",
    status: str = "",
    live: bool = False,
    running: bool = False,
    contents: bool = False,
) -> dict[str, Any]:
    """What the page shows, as plain data. A `live` page asks for newer data, `data.json` beside it, every second."""
    told = [{"kind": type(section).__name__.lower()} | asdict(section) for section in sections]
    head = {"title": title, "subtitle": subtitle, "status": status, "live": live, "running": running}
    return head | {"contents": contents, "sections": told}


def _part(name: str) -> str:
    return resources.files("fedamd.report").joinpath(name).read_text(encoding="utf-8")
