"""`fedamd.report(…)`: one self-contained page about one or more runs."""

from collections.abc import Sequence
from pathlib import Path

from fedamd.errors import FedamdError
from fedamd.report.content import page_sections, page_status, page_subtitle, page_title
from fedamd.report.page import build_page
from fedamd.report.stored import read_runs
from fedamd.report.sweeping import is_sweep, sweep_page


def report(runs: Path | str | Sequence[Path | str], out: Path | str | None = None) -> Path:
    """Write a page with curves, tables and settings of the runs in these folders, and say where it is.

    >>> fedamd.report(["runs/one", "runs/two"], "both.html")
    """
    folders = [Path(runs)] if isinstance(runs, str | Path) else [Path(run) for run in runs]
    if not folders:
        raise FedamdError("a report needs the folder of at least one run")
    target = Path(out) if out else folders[0] / "report.html"
    if len(folders) == 1 and is_sweep(folders[0]):
        return write_page(sweep_page(folders[0]), target)
    stored = read_runs(folders)
    page = build_page(
        page_title(stored), page_sections(stored), subtitle=page_subtitle(stored), status=page_status(stored)
    )
    return write_page(page, target)


def write_page(page: str, target: Path) -> Path:
    """The page as a file."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise FedamdError(f"cannot write the page to {target}: {error.strerror}") from None
    return target
