"""What a run came to: final and best accuracy, costs, and what the target accuracy cost."""

from collections.abc import Sequence
from typing import Any

from fedamd.runs.records import Record
from fedamd.runs.run import Run

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
        **results(records),
        "target_accuracy": target,
        "to_target": to_target(records, target) if target is not None else None,
        **run.ledger.totals(),
        "start_up": run.start_up.totals(),
        **({"clients": spread} if (spread := fairness(records)) else {}),
        "missing": sum(record.missing for record in records),
        "rejected": sum(record.rejected for record in records),
        "seconds": round(sum(record.seconds for record in run.records), 3),
    }


def results(records: Sequence[Record]) -> dict[str, float | None]:
    """Final and best accuracy, final losses: the last round in which each was measured."""
    accuracies = [record.accuracy for record in records if record.accuracy is not None]
    return {
        "final_accuracy": accuracies[-1] if accuracies else None,
        "best_accuracy": max(accuracies, default=None),
        "final_loss": _last(records, "loss"),
        "final_test_loss": _last(records, "test_loss"),
    } | {f"final_{name}": _last(records, name) for name in _own_metrics(records)}


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


def _last(records: Sequence[Record], name: str) -> float | None:
    return next((value for record in reversed(records) if (value := record.measured(name)) is not None), None)
