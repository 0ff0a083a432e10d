"""`fedamd report`: one self-contained page about one or more runs."""

from pathlib import Path
from typing import Annotated

import typer

from fedamd.errors import FedamdError
from fedamd.report.content import page_sections, page_status, page_subtitle, page_title
from fedamd.report.page import build_page
from fedamd.report.stored import read_runs


def register(app: typer.Typer) -> None:
    app.command("report")(command)


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of runs, or of comparisons.")],
    out: Annotated[Path | None, typer.Option(help="The HTML file (default: RUN/report.html).")] = None,
) -> None:
    """Write a page with curves, tables and settings that opens in any browser, offline."""
    stored = read_runs(runs)
    page = build_page(
        page_title(stored), page_sections(stored), subtitle=page_subtitle(stored), status=page_status(stored)
    )
    target = out or runs[0] / "report.html"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise FedamdError(f"cannot write the page to {target}: {error.strerror}") from None
    typer.echo(target)
