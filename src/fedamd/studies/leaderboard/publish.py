"""What a leaderboard leaves for readers: a CSV file, a figure for each setting, one page, and docs/choosing.md."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from fedamd.files import write_text
from fedamd.metrics import Measure, Target
from fedamd.report.content import curve_section
from fedamd.report.curves import Curve as Drawn
from fedamd.report.curves import measured_points
from fedamd.report.figures import draw_costs
from fedamd.report.page import PageSection, Table, TableCell, Tone, build_page, cell
from fedamd.runs.records import Record
from fedamd.studies.leaderboard.board import Entrant, LeaderboardSetting
from fedamd.studies.leaderboard.ranking import COSTS, SECONDS, Standing, rank
from fedamd.studies.leaderboard.run import competing, stored
from fedamd.studies.leaderboard.store import LeaderboardStore, Line
from fedamd.studies.paper.store import cumulative

DRAWN = 8  # the best at equal rounds are drawn: more lines cannot be told apart
_UNITS = {
    "rounds": (1.0, "rounds"),
    "gradients": (1e6, "10⁶ gradients"),
    "bits": (1e9, "Gbit"),
    SECONDS: (1.0, "simulated s"),
}


@dataclass(frozen=True)
class Board:
    """A setting with everything that is finished of it."""

    setting: LeaderboardSetting
    reported: Mapping[str, Sequence[Line]]
    standings: Mapping[str, Sequence[Standing]]
    open: tuple[str, ...]  # entrants that are not finished


def boards(settings: Sequence[LeaderboardSetting], entrants: Sequence[Entrant], store: LeaderboardStore) -> list[Board]:
    """All settings of which anything is finished."""
    found = []
    for setting in settings:
        reported = stored(setting, entrants, store)
        if reported:
            missing = tuple(one.label for one in competing(setting, entrants) if one.label not in reported)
            found.append(Board(setting, reported, rank(setting, reported), missing))
    return found


def publish(told: Sequence[Board], folder: Path) -> list[Path]:
    """Write leaderboard.csv, leaderboard.html and a figure for each setting."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {board.setting.name: _draw(board, folder / f"{board.setting.name}.png") for board in told}
    write_text(folder / "leaderboard.csv", _csv(told))
    sections: list[PageSection] = []
    for board in told:
        sections += [_table(board), _curves(board)]
    write_text(folder / "leaderboard.html", build_page("Leaderboard", sections, subtitle=_HOW, contents=True))
    return [folder / "leaderboard.csv", folder / "leaderboard.html", *figures.values()]


_BANDS = "Lines are means over seeds; bands span the smallest to the largest; start-up costs are included."
_HOW = (
    "Every method with the same budget for tuning, on seeds that are not reported. Accuracy: the mean of the last ten "
    "evaluations, ± the 95 % interval over seeds, a seed that diverged counted as 0; = tied with the first."
)


def _table(board: Board) -> Table:
    by_label = {cost: {one.label: one for one in standings} for cost, standings in board.standings.items()}
    columns = [
        "method",
        *(f"{kind}\nat equal\n{cost}" for cost in COSTS for kind in ("accuracy", "rank")),
        *("worst seed", "worst tenth\nof clients"),
        *("models kept\nby the server", "by a client"),
    ]
    columns += [f"{unit}\nto {target:.0%}" for _, unit in _UNITS.values() for target in board.setting.targets]
    rows = [_row(one.label, by_label, board.reported[one.label]) for one in board.standings["rounds"]]
    note = f"Not finished: {'; '.join(board.open)}." if board.open else ""
    left_out = " ".join(f"Without {label}: {why}." for label, why in board.setting.without.items())
    told = [place for place in range(len(columns)) if any(row[place].value is not None for row in rows)]
    return Table(
        title=board.setting.title,
        note=f"{note} {left_out}".strip(),
        columns=[columns[place] for place in told],
        rows=[[row[place] for place in told] for row in rows],
    )


def _row(label: str, by_label: Mapping[str, Mapping[str, Standing]], lines: Sequence[Line]) -> list[TableCell]:
    cells = [cell(label)]
    for cost in COSTS:
        one = by_label[cost][label]
        tone: Tone = "bad" if one.diverged else "best" if one.rank == 1 else "good" if one.tied else ""
        place = f"{one.rank} =" if one.tied and one.rank > 1 else f"{one.rank}"
        cells += [cell(one.mean, accuracy(one).replace(" (", "\n("), tone), cell(one.rank, place)]
    at_rounds = by_label["rounds"][label]
    cells += [_percent(at_rounds.worst), _percent(mean_worst_decile(lines)), *map(cell, kept_models(lines))]
    to_targets = {cost: by_label[cost][label].to_targets for cost in COSTS} | {SECONDS: at_rounds.seconds}
    for cost, values in to_targets.items():
        cells += [cell(None if value is None else value / _UNITS[cost][0]) for value in values]
    return cells


def mean_worst_decile(lines: Sequence[Line]) -> float | None:
    """Of all seeds; none where one of them has none, or was run before it was measured."""
    values = [line["worst_decile"] for line in lines if line.get("worst_decile") is not None]
    return fmean(values) if len(values) == len(lines) else None


def kept_models(lines: Sequence[Line]) -> tuple[float | None, float | None]:
    """By the server and by a client, in models; the most of all seeds."""
    kept = [line["memory"] for line in lines if "memory" in line]
    return (max(one[0] for one in kept), max(one[1] for one in kept)) if kept else (None, None)


def _percent(value: float | None) -> TableCell:
    return cell(value, "" if value is None else f"{100 * value:.2f}")


def accuracy(one: Standing) -> str:
    """In percent, with its interval, and how many seeds diverged."""
    margin = f" ± {100 * one.margin:.2f}" if math.isfinite(one.margin) else ""
    return f"{100 * one.mean:.2f}{margin}" + (f" ({one.diverged} of {len(one.seeds)} diverged)" if one.diverged else "")


_COLUMNS = (
    *("setting", "at_equal", "rank", "method", "accuracy", "margin_95", "worst_seed", "diverged", "tied_with_first"),
    *("target_1", "target_2", "target_3", "seconds_1", "seconds_2", "seconds_3"),
    *("worst_decile", "models_on_server", "models_on_client", "algorithm"),
)


def _csv(told: Sequence[Board]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for board in told:
        for cost, standings in board.standings.items():
            for one in standings:
                numbers = [round(one.mean, 5), round(one.margin, 5), round(one.worst, 5), one.diverged, int(one.tied)]
                lines = board.reported[one.label]
                values = [*one.to_targets, *one.seconds, mean_worst_decile(lines), *kept_models(lines)]
                costs = [None if value is None else round(value, 4) for value in values]
                chosen = json.dumps(lines[0]["algorithm"])
                writer.writerow([board.setting.name, cost, one.rank, one.label, *numbers, *costs, chosen])
    return text.getvalue()


def _curves(board: Board) -> PageSection:
    section = curve_section(_best(board), _goal(board))
    return replace(section, title="", note=f"The best at equal rounds, at most {DRAWN}. {_BANDS}")


def _goal(board: Board) -> Target:
    return Target(Measure(), board.setting.targets[-1])


def _best(board: Board) -> list[Drawn]:
    """The curves of the best at equal rounds."""
    best = [one.label for one in board.standings["rounds"][:DRAWN]]
    return [
        Drawn(
            label,
            tuple(line["seed"] for line in board.reported[label]),
            sum(line["status"] == "diverged" for line in board.reported[label]),
            measured_points([_records(line) for line in board.reported[label]]),
        )
        for label in best
    ]


def _draw(board: Board, path: Path) -> Path:
    return draw_costs(_best(board), path, _goal(board))


def _records(line: Line) -> list[Record]:
    """A stored run as the records its curve was made from, start-up charged."""
    sums, (gradients, bits) = cumulative(line["costs"], line["rounds_cost"]), line["start_up"]
    return [
        Record(
            rounds - 1,
            metrics={"accuracy": value},
            costs={
                "gradient_samples": sums["gradients"][rounds - 1] + gradients,
                "bits_up": sums["bits"][rounds - 1] + bits,
                "bits_down": 0,
            },
        )
        for rounds, value in zip(line["evaluated"], line["accuracy"], strict=True)
    ]


def choosing_page(told: Sequence[Board]) -> str:
    """docs/choosing.md: which method for which federation, from the data and nothing else."""
    parts = [
        "# Which method?",
        "",
        f"Written by `fedamd leaderboard` from `results/leaderboard/`. {_HOW} What is tied with the first cannot "
        "be told from it with so few seeds.",
    ]
    for board in told:
        count = f"{len(board.reported)} of {len(board.reported) + len(board.open)} entrants, "
        parts += ["", f"## {board.setting.title}", "", f"{count}{len(board.setting.seeds)} seeds.", ""]
        parts += [*_verdicts(board), "", *_markdown(board)]
        if board.open:
            parts += ["", f"Not finished: {'; '.join(board.open)}."]
    return "\n".join(parts) + "\n"


def _verdicts(board: Board) -> list[str]:
    lines = []
    for cost, standings in board.standings.items():
        first, *others = standings
        tied = [one.label for one in others if one.tied]
        behind = f", tied with {'; '.join(tied)}" if tied else ""
        lines.append(f"* At equal {cost}: **{first.label}** ({accuracy(first)} %){behind}.")
    return lines


def _markdown(board: Board) -> list[str]:
    by_label = {cost: {one.label: one for one in standings} for cost, standings in board.standings.items()}
    lines = ["| method | " + " | ".join(f"equal {cost}" for cost in COSTS) + " |", "|---|---|---|---|"]
    for one in board.standings["rounds"]:
        cells = (f"{by_label[cost][one.label].rank}: {accuracy(by_label[cost][one.label])}" for cost in COSTS)
        lines.append(f"| {one.label} | {' | '.join(cells)} |")
    return lines
