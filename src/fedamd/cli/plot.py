"""`fedamd plot`: a picture of one or more runs."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command("plot")(command)


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of runs, or of comparisons.")],
    out: Annotated[Path | None, typer.Option(help="A .png, .svg or .pdf file (default: RUN/curves.png).")] = None,
) -> None:
    """Draw accuracy and loss against rounds; runs that differ only in their seed become one band."""
    from fedamd.report.curves import draw_curves
    from fedamd.report.figures import draw_measures
    from fedamd.report.stored import read_runs

    typer.echo(draw_measures(draw_curves(read_runs(runs)), out or runs[0] / "curves.png"))
