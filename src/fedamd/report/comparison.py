"""The table that compares methods: how good each became, for the worst-off clients too, and what it cost."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fedamd.campaigns.compare import row
from fedamd.metrics import Measure, Target
from fedamd.report.curves import groups
from fedamd.report.page import Table, TableCell, cell
from fedamd.report.stored import StoredRun
from fedamd.report.units import count, data_size, duration

Text = Callable[[float], str]


@dataclass(frozen=True)
class MetricColumn:
    """How one number of all methods is shown."""

    name: str
    key: str
    text: Text = "{:.4g}".format
    best: Callable[[Sequence[float]], float | None] | None = None  # which value is highlighted, if any

    def cells(self, methods: Sequence[Sequence[float | None]]) -> list[TableCell]:
        """A cell for every method, from the values of its seeds."""
        known = [[value for value in seeds if value is not None] for seeds in methods]
        whole = [statistics.fmean(own) for own, seeds in zip(known, methods, strict=True) if len(own) == len(seeds)]
        winner = self.best(whole) if self.best and len(whole) > 1 else None
        return [self._cell(own, len(seeds), winner) for own, seeds in zip(known, methods, strict=True)]

    def _cell(self, values: Sequence[float], seeds: int, winner: float | None) -> TableCell:
        """The mean where every seed has a value, else how many of them do."""
        if len(values) < seeds:
            return cell(None, f"{len(values)} of {seeds}" if values else "–")
        mean = statistics.fmean(values)
        spread = f" ± {self.text(statistics.stdev(values))}" if seeds > 1 else ""
        return cell(mean, self.text(mean) + spread, "best" if mean == winner else "")


def comparison_table(runs: Sequence[StoredRun], target: Target) -> Table:
    """A row for every method; several seeds as mean ± standard deviation."""
    measure = runs[0].measure
    told = {
        label: [row(label, run.status, run.records, target, measure) for run in members]
        for label, members in groups(runs).items()
    }
    rows = [one for members in told.values() for one in members]
    columns = columns_for(measure, target, {key for one in rows for key, value in one.items() if value is not None})
    cells = [column.cells([[one[column.key] for one in members] for members in told.values()]) for column in columns]
    odd = any(one["status"] != "finished" for one in rows)
    statuses = [[_status([one["status"] for one in members])] if odd else [] for members in told.values()]
    heads = [[cell(label), *status] for label, status in zip(told, statuses, strict=True)]
    return Table(
        title="Comparison",
        note="Several seeds: mean ± standard deviation." if len(runs) > len(told) else "",
        columns=["method", *(["status"] if odd else []), *(column.name for column in columns)],
        rows=[head + [column[index] for column in cells] for index, head in enumerate(heads)],
    )


def columns_for(measure: Measure, target: Target, known: set[str]) -> list[MetricColumn]:
    """What is compared, as far as it is known of anybody: what methods are judged by, fairness, then costs."""
    name = measure.label
    judged = [
        MetricColumn(f"final\n{name}", f"final_{measure.name}", measure.text, measure.best),
        MetricColumn(f"best\n{name}", f"best_{measure.name}", measure.text, measure.best),
        MetricColumn("worst tenth\nof clients", "worst_decile", measure.text, measure.best),
    ]
    accuracy = MetricColumn("accuracy", "final_accuracy", Measure().text, max)
    measured = [accuracy, MetricColumn("test loss", "final_test_loss", best=min)]
    totals = [
        MetricColumn("total\ngradients", "gradient_samples", count),
        MetricColumn("total\nsent", "bits", data_size),
        MetricColumn("total\nsimulated time", "simulated_seconds", duration),
    ]
    others = [one for one in measured if one.key != f"final_{measure.name}"]
    # where it was measured, a target that nobody has reached is worth a column of dashes
    aimed = {one.key for one in target_columns(target)[:3]} if f"final_{target.measure.name}" in known else set()
    return [column for column in (*judged, *others, *target_columns(target), *totals) if column.key in known | aimed]


def target_columns(target: Target) -> list[MetricColumn]:
    """What it cost to reach it."""
    goal = f"to {target.text}"
    return [
        MetricColumn(f"rounds\n{goal}", "rounds_to_target", best=min),
        MetricColumn(f"gradients\n{goal}", "gradient_samples_to_target", count, min),
        MetricColumn(f"sent\n{goal}", "bits_to_target", data_size, min),
        MetricColumn(f"simulated time\n{goal}", "simulated_seconds_to_target", duration, min),
    ]


def tally(statuses: Sequence[str]) -> str:
    """As in "2 finished, 1 diverged"; a word where all are the same."""
    return common(statuses) or ", ".join(f"{statuses.count(one)} {one}" for one in dict.fromkeys(statuses))


def common(values: Iterable[str]) -> str:
    """What all say; nothing where they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else ""


def _status(statuses: Sequence[str]) -> TableCell:
    return cell(tally(statuses), tone="bad" if "diverged" in statuses else "")
