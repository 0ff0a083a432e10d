"""`fedamd.report(…)`: one self-contained page about one or more runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fedamd.errors import FedamdError
from fedamd.metrics import DIRECTIONS, target_for
from fedamd.report.content import page_sections, page_status, page_subtitle, page_title
from fedamd.report.page import build_page
from fedamd.report.stored import read_runs
from fedamd.report.sweeping import is_sweep, sweep_page


def report(
    runs: Path | str | Sequence[Path | str],
    out: Path | str | None = None,
    target: float | Mapping[str, float] | None = None,
) -> Path:
    """Write a page with curves, tables and settings of the runs in these folders, and say where it is.

    Costs are told up to the runs' target, or up to `target`: a value of what they are judged by, or {metric: value}.

    >>> fedamd.report(["runs/one", "runs/two"], "both.html", target={"test_loss": 0.5})
    """
    folders = [Path(runs)] if isinstance(runs, str | Path) else [Path(run) for run in runs]
    if not folders:
        raise FedamdError("a report needs the folder of at least one run")
    path = Path(out) if out else folders[0] / "report.html"
    stored = read_runs(folders)
    aim = None if target is None else target_for(target, stored[0].measure, DIRECTIONS)
    if len(folders) == 1 and is_sweep(folders[0]):
        return write_page(sweep_page(folders[0], stored, aim), path)
    sections = page_sections(stored, aim)
    page = build_page(page_title(stored), sections, subtitle=page_subtitle(stored), status=page_status(stored))
    return write_page(page, path)


def write_page(page: str, path: Path) -> Path:
    """The page as a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise FedamdError(f"cannot write the page to {path}: {error.strerror}") from None
    return path
