"""The table that compares methods: how good each became, and what it cost."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fedamd.campaigns.compare import row
from fedamd.report.curves import BIT_UNIT, GRADIENT_UNIT, groups
from fedamd.report.page import Cell, Table, cell
from fedamd.report.stored import StoredRun


@dataclass(frozen=True)
class Column:
    """How one number of all methods is shown."""

    name: str
    key: str
    scale: float = 1
    percent: bool = False
    best: Callable[[Sequence[float]], float] | None = None  # which value is highlighted, if any

    def cells(self, methods: Sequence[Sequence[float | None]]) -> list[Cell]:
        """A cell for every method, from the values of its seeds."""
        known = [[self.scale * value for value in seeds if value is not None] for seeds in methods]
        whole = [statistics.fmean(own) for own, seeds in zip(known, methods, strict=True) if len(own) == len(seeds)]
        winner = self.best(whole) if self.best and len(whole) > 1 else None
        return [self._cell(own, len(seeds), winner) for own, seeds in zip(known, methods, strict=True)]

    def _cell(self, values: Sequence[float], seeds: int, winner: float | None) -> Cell:
        """The mean where every seed has a value, else how many of them do."""
        if len(values) < seeds:
            return cell(None, f"{len(values)} of {seeds}" if values else "–")
        mean = statistics.fmean(values)
        text = f"{mean:.2f}" if self.percent else f"{mean:.4g}"
        if seeds > 1:
            text += f" ± {statistics.stdev(values):.2g}"
        return cell(mean, text + "%" * self.percent, "best" if mean == winner else "")


def comparison_table(runs: Sequence[StoredRun], target: float) -> Table:
    """A row for every method; several seeds as mean ± standard deviation."""
    told = {
        label: [row(label, run.status, run.records, target) for run in members]
        for label, members in groups(runs).items()
    }
    classified = any(one["best_accuracy"] is not None for rows in told.values() for one in rows)
    columns = _columns(f"to {100 * target:g}%", classified)
    cells = [column.cells([[one[column.key] for one in rows] for rows in told.values()]) for column in columns]
    heads = [[cell(label), _status([one["status"] for one in rows])] for label, rows in told.items()]
    return Table(
        title="Comparison",
        note="Several seeds: mean ± standard deviation." if len(runs) > len(told) else "",
        columns=["method", "status", *(column.name for column in columns)],
        rows=[head + [column[index] for column in cells] for index, head in enumerate(heads)],
    )


def tally(statuses: Sequence[str]) -> str:
    """As in "2 finished, 1 diverged"; a word where all are the same."""
    return common(statuses) or ", ".join(f"{statuses.count(one)} {one}" for one in dict.fromkeys(statuses))


def common(values: Iterable[str]) -> str:
    """What all say; nothing where they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else ""


def _columns(goal: str, classified: bool) -> list[Column]:
    """What is compared; accuracies and what they cost only where something is classified."""
    accuracy = [
        Column("final accuracy", "final_accuracy", 100, percent=True, best=max),
        Column("best accuracy", "best_accuracy", 100, percent=True, best=max),
    ]
    costs = [
        Column(f"rounds\n{goal}", "rounds_to_target", best=min),
        Column(f"gradients ×10⁵\n{goal}", "gradient_samples_to_target", 1 / GRADIENT_UNIT, best=min),
        Column(f"×32 Mbit\n{goal}", "bits_to_target", 1 / BIT_UNIT, best=min),
    ]
    return [
        *(accuracy if classified else []),
        Column("test loss", "final_test_loss", best=min),
        *(costs if classified else []),
        Column("gradients ×10⁵\nin all", "gradient_samples", 1 / GRADIENT_UNIT),
        Column("×32 Mbit\nin all", "bits", 1 / BIT_UNIT),
    ]


def _status(statuses: Sequence[str]) -> Cell:
    return cell(tally(statuses), tone="bad" if "diverged" in statuses else "")
