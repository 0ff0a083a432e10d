"""What a run came to: what it is judged by, final and best values, costs, and what reaching the target cost."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from fedamd.errors import FedamdError
from fedamd.metrics import Measure, Target
from fedamd.runs.records import Record
from fedamd.runs.run import Run
from fedamd.runs.sealed import read_json

Summary = dict[str, Any]


def summarise(run: Run, status: str) -> Summary:
    """The summary of a run that has ended; start-up costs stand on their own."""
    records = [record for record in run.records if record.round >= 0]
    target = run.experiment.target
    return {
        "status": status,
        **({"stopped": run.stop_reason} if run.stop_reason else {}),
        "algorithm": run.config.algorithm.name,
        "rounds": run.t,
        "measure": asdict(run.experiment.measure),
        **results(records, run.experiment.measure),
        **told_target(target),
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
    try:
        read_target(told)
    except (KeyError, TypeError, FedamdError):
        known = False
    if not known or not isinstance(measure.get("name", ""), str) or type(told.get("rounds", 0)) is not int:
        raise FedamdError(f"{path} is damaged: its measure, target or number of rounds makes no sense")
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


def told_target(target: Target | None) -> dict[str, Any]:
    """As files have it; a target accuracy has its own name, as in earlier versions."""
    accuracy = target.value if target and target.measure.name == "accuracy" else None
    return {"target": asdict(target) if target else None, "target_accuracy": accuracy}


def read_target(told: Mapping[str, Any]) -> Target | None:
    """What a file says of its target."""
    if found := told.get("target"):
        return Target(Measure(**found["measure"]), found["value"])
    return Target(Measure(), told["target_accuracy"]) if told.get("target_accuracy") else None


def to_target(records: Sequence[Record], target: Target) -> dict[str, float] | None:
    """Rounds and costs when the target was first reached; None if it never was."""
    for record in records:
        value = record.measured(target.measure.name)
        if value is not None and target.met_by(value):
            return {"rounds": record.round + 1} | record.costs
    return None


def target_costs(totals: Mapping[str, float] | None) -> dict[str, float | None]:
    """Rounds, gradient samples, bits and simulated seconds, as None where there is nothing to tell."""
    if totals is None:
        return dict.fromkeys(("rounds", "gradient_samples", "bits", "simulated_seconds"))
    return {
        "rounds": totals["rounds"],
        "gradient_samples": totals["gradient_samples"],
        "bits": totals["bits_up"] + totals["bits_down"],
        "simulated_seconds": totals.get("simulated_seconds"),
    }


def _values(records: Sequence[Record], name: str) -> list[float]:
    return [value for record in records if (value := record.measured(name)) is not None]
