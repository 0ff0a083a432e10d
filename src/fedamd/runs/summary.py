"""What a run came to: what it is judged by, final and best values, costs, and what the target accuracy cost."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from fedamd.errors import FedamdError
from fedamd.metrics import Measure
from fedamd.runs.records import Record
from fedamd.runs.run import Run
from fedamd.runs.sealed import read_json

Summary = dict[str, Any]


def summarise(run: Run, status: str) -> Summary:
    """The summary of a run that has ended; start-up costs stand on their own."""
    records = [record for record in run.records if record.round >= 0]
    target = run.config.target_accuracy
    return {
        "status": status,
        **({"stopped": run.stop_reason} if run.stop_reason else {}),
        "algorithm": run.config.algorithm.name,
        "rounds": run.t,
        "measure": asdict(run.experiment.measure),
        **results(records, run.experiment.measure),
        "target_accuracy": target,
        "to_target": to_target(records, target) if target is not None else None,
        **run.ledger.totals(),
        "start_up": run.start_up.totals(),
        **({"clients": spread} if (spread := fairness(records)) else {}),
        "missing": sum(record.missing for record in records),
        "rejected": sum(record.rejected for record in records),
        "seconds": round(sum(record.seconds for record in run.records), 3),
    }


def read_summary(path: Path, *needed: str) -> Summary:
    """The summary in a file, which has at least the needed keys; one that cannot be is a `FedamdError`."""
    told = read_json(path, *needed)
    measure = told.get("measure", {})
    known = isinstance(measure, dict) and measure.keys() <= {one.name for one in fields(Measure)}
    if not known or not isinstance(measure.get("name", ""), str) or type(told.get("rounds", 0)) is not int:
        raise FedamdError(f"{path} is damaged: its measure or its number of rounds makes no sense")
    return told


def results(records: Sequence[Record], measure: Measure) -> dict[str, float | None]:
    """Accuracy, losses and metrics of the last round in which each was measured; the best accuracy and measure."""
    judged_by = {"accuracy": Measure(), measure.name: measure}
    best = {f"best_{name}": one.best(_values(records, name)) for name, one in judged_by.items()}
    names = ("accuracy", "loss", "test_loss", *_own_metrics(records))
    return {f"final_{name}": next(reversed(_values(records, name)), None) for name in names} | best


def fairness(records: Sequence[Record]) -> dict[str, Any] | None:
    """How the newest evaluation on clients' own data is spread, without every client's value; None without one."""
    newest = next((record.clients for record in reversed(records) if record.clients), None)
    if newest is None:
        return None
    return {name: {key: one for key, one in found.items() if key != "values"} for name, found in newest.items()}


def _own_metrics(records: Sequence[Record]) -> list[str]:
    names = dict.fromkeys(name for record in records for name in record.metrics)
    return [name for name in names if name not in ("test_loss", "accuracy")]


def to_target(records: Sequence[Record], target: float) -> dict[str, float] | None:
    """Rounds and costs when the target accuracy was first reached; None if it never was."""
    for record in records:
        if record.accuracy is not None and record.accuracy >= target:
            return {"rounds": record.round + 1} | record.costs
    return None


def _values(records: Sequence[Record], name: str) -> list[float]:
    return [value for record in records if (value := record.measured(name)) is not None]
