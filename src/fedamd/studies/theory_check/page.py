"""The page on theory against measurement: results as JSON, figures and Markdown."""

import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedamd.errors import FedamdError
from fedamd.studies.theory_check.protocol import B_SMALL, FULL, K, M, Scale
from fedamd.studies.theory_check.results import ExpectationVerdict, Figure, Line, StudyResult, TableValue

FINDINGS = "findings.json"
COLOURS = ("#1f4e9c", "#c8372d", "#2b7a3d", "#8a5a00", "#6a3d9a", "#008b8b", "#d0770b", "#555555", "#b03a7c")

OPENING = """# Theory against measurement

Written by `{command}`: {runs}. Numbers are rounds, means over {seeds} seeds with 95 % intervals; "–" was not reached by
every seed in the rounds that were watched. Everything runs through the same engines as any training, in float64.

Two problems, M = {M} clients of 10 samples, K = {K}, b' = {b_small}:

* **non-convex**: $\\ell(x; z) = (1 + (z^\\top x)^2)^{{-s/2}}$ with $s = 0.1$ in 4 dimensions. $L$, $L_\\sigma$ and
  $\\sigma$ are bounded by hand, $F_* = 0$. Its gradient flow needs $\\epsilon^{{-0.955}}$ rounds: nearly $1/\\epsilon$.
* **quadratic**: the synthetic data set of that name, with all constants exact.

What counts as agreement is part of each study's code (`studies.theory_check`), and stands in the tables as the expected
range. Problems, grids and ranges were chosen with trial runs on these same problems at hand: agreement is a check of
consistency, not a blind prediction. The theorems bound from above; "proved" has all constants of the appendix.
"""


def write(found: Sequence[StudyResult], scale: Scale, folder: Path, page: Path, command: str) -> Path:
    """Findings and figures into `folder`, the page beside whatever else is documented."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        page.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps([_finite(result.to_dict()) for result in found], indent=1, ensure_ascii=False)
        (folder / FINDINGS).write_text(content + "\n", encoding="utf-8")
        for result in found:
            draw(result, folder / f"{result.name}.png")
        pictures = Path(os.path.relpath(folder, page.parent)).as_posix()
        page.write_text(markdown(found, scale, pictures, command), encoding="utf-8")
    except OSError as error:
        raise FedamdError(f"cannot write {error.filename}: {error.strerror}") from None
    return page


def markdown(found: Sequence[StudyResult], scale: Scale, pictures: str, command: str) -> str:
    """The page; `pictures` is where its figures lie."""
    runs = "the full measurement" if scale == FULL else "a quick pass, too short to conclude from"
    opening = OPENING.format(command=command, runs=runs, seeds=scale.seeds, M=M, K=K, b_small=B_SMALL)
    sections = (line for result in found for line in _section(result, pictures))
    return "\n".join([opening, *_summary(found), *sections]) + "\n"


def draw(result: StudyResult, path: Path) -> None:
    """The result's figure."""
    from matplotlib.figure import Figure as Canvas  # not at import: only this function draws

    canvas = Canvas(figsize=(6.4, 4.0), layout="constrained")
    axes = canvas.subplots()
    for number, line in enumerate(result.figure.lines):
        _draw_line(axes, line, COLOURS[number % len(COLOURS)])
    _label(axes, result.figure)
    axes.set_title(result.title)
    canvas.savefig(path, dpi=110)


def _draw_line(axes: object, line: Line, colour: str) -> None:
    if line.dashed:
        axes.plot(line.x, line.y, "--", color=colour, linewidth=1.5, label=line.label)  # type: ignore[attr-defined]
        return
    errors = None
    if line.low:
        below = [y - low for y, low in zip(line.y, line.low, strict=True)]
        above = [high - y for y, high in zip(line.y, line.high, strict=True)]
        errors = [below, above]
    axes.errorbar(  # type: ignore[attr-defined]
        line.x, line.y, yerr=errors, fmt="o-", color=colour, markersize=4, linewidth=1.5, capsize=2, label=line.label
    )


def _label(axes: object, figure: Figure) -> None:
    shown = [line for line in figure.lines if any(y > 0 for y in line.y)]  # nothing reached: nothing to scale
    x_scale, y_scale = ("log" if wanted and shown else "linear" for wanted in (figure.log_x, figure.log_y))
    axes.set(xlabel=figure.x, ylabel=figure.y, xscale=x_scale, yscale=y_scale)  # type: ignore[attr-defined]
    axes.grid(alpha=0.25, which="both")  # type: ignore[attr-defined]
    axes.spines[["top", "right"]].set_visible(False)  # type: ignore[attr-defined]
    axes.legend(fontsize=8, frameon=False)  # type: ignore[attr-defined]


def _summary(found: Sequence[StudyResult]) -> Iterator[str]:
    """What agrees, what does not."""
    verdicts = [(result, verdict) for result in found for verdict in result.verdicts]
    agreeing = sum(verdict.word == "agrees" for _, verdict in verdicts)
    yield f"## In short\n\n{agreeing} of {len(verdicts)} expectations were met."
    others = [(result, verdict) for result, verdict in verdicts if verdict.word != "agrees"]
    yield "Those that were not:\n" if others else ""
    for result, verdict in others:
        yield (
            f"* **{result.title}**: {verdict.expectation.text}: {_text(verdict.value)}, expected {verdict.range} "
            f"({verdict.word})."
        )


def _section(result: StudyResult, pictures: str) -> Iterator[str]:
    yield f"\n## {result.title}\n\n{result.setting[0].upper()}{result.setting[1:]}.\n"
    yield f"![{result.title}]({pictures}/{result.name}.png)\n"
    yield from _table(("expectation", "expected", "measured", ""), [_verdict_row(v) for v in result.verdicts])
    yield ""
    yield from _table(result.columns, result.rows)
    for remark in result.remarks:
        yield f"\n{remark}"


def _verdict_row(verdict: ExpectationVerdict) -> list[TableValue]:
    return [verdict.expectation.text, verdict.range, verdict.value, verdict.word]


def _table(columns: Sequence[str], rows: Sequence[Sequence[TableValue]]) -> Iterator[str]:
    yield "| " + " | ".join(columns) + " |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield "| " + " | ".join(map(_text, row)) + " |"


def _text(cell: TableValue) -> str:
    if cell is None:
        return "–"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _finite(plain: object) -> object:
    """JSON has no infinity."""
    if isinstance(plain, dict):
        return {key: _finite(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [_finite(value) for value in plain]
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain
