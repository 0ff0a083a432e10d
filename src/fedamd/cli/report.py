"""`fedamd report`: one self-contained page about one or more runs, or about the reproduction of the paper."""

from pathlib import Path
from typing import Annotated

import typer

from fedamd.cli.reproduce import FOLDER
from fedamd.cli.show import TARGET_HELP
from fedamd.errors import FedamdError


def register(app: typer.Typer) -> None:
    app.command("report")(command)


def command(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="RUN…", help="Folders of runs, comparisons or a sweep.")
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help=f"A page about the reproduction of the paper in RUN (default: {FOLDER}).")
    ] = False,
    target: Annotated[
        str | None, typer.Option(metavar="[METRIC=]VALUE", help=f"{TARGET_HELP} (default: the runs' own).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The HTML file (default: RUN/report.html).")] = None,
) -> None:
    """Write a page with curves, tables and settings that opens in any browser, offline."""
    from fedamd.metrics import parse_target
    from fedamd.report.write import report, write_page
    from fedamd.studies.paper.publish import paper_page

    folders = runs or ([FOLDER] if paper else [])
    if not folders or (paper and len(folders) > 1):
        raise FedamdError("give the folders of runs, or --paper with at most one folder")
    if paper:
        typer.echo(write_page(paper_page(folders[0]), out or folders[0] / "report.html"))
    else:
        typer.echo(report(folders, out, parse_target(target) if target else None))
