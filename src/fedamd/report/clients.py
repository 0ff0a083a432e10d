"""The clients on a page: how the model does on each over the rounds, and who owns which classes."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from fedamd.errors import FedamdError
from fedamd.report.curves import AXES, groups
from fedamd.report.page import Bars, Curves, PageSection, Table, TableCell, Text, cell
from fedamd.report.stored import StoredRun
from fedamd.runs.clients_file import Counts, class_counts, kept_clients
from fedamd.runs.config import Config
from fedamd.runs.evaluation import hold_out
from fedamd.runs.experiment import load_data, share_out
from fedamd.runs.records import Record
from fedamd.runs.trust import own_code

_CLASSES = 3  # that a client's line in the table names


def client_sections(runs: Sequence[StoredRun]) -> list[PageSection]:
    """The spread over clients round by round and a table of them, where they were evaluated; then who owns what."""
    return [*_spreads(runs), *_tables(runs), *client_bars(runs)]


# --- how the model does on them ---


def _spreads(runs: Sequence[StoredRun]) -> list[PageSection]:
    """From the worst client to the best, the median and the 10th percentile, over the rounds."""
    first = {label: members[0] for label, members in groups(runs).items()}
    evaluated = {label: run for label, run in first.items() if _newest(run)}
    names = dict.fromkeys(name for run in evaluated.values() for name in (_newest(run) or Record(0)).clients)
    if not names:
        return []
    alone = len(evaluated) == 1
    lines = [line for label, run in evaluated.items() for line in _lines("" if alone else f"{label}: ", run, alone)]
    return [
        Curves(
            title="Clients' own tests over the rounds",
            note="Bands reach from the smallest value of any client to the largest."
            if alone
            else "Lines are the median client; bands span the 10th percentile of clients to the largest value.",
            axes=[("rounds", AXES["rounds"].label, AXES["rounds"].name, "number")],
            panels=[(name, name.replace("_", " "), "percent" if name == "accuracy" else "number") for name in names],
            lines=lines,
        )
    ]


def _lines(prefix: str, run: StoredRun, alone: bool) -> list[dict[str, Any]]:
    """One method from the smallest to the largest client; several from the 10th percentile on, to be told apart."""
    told = {"median": ("min", "max"), "p10": ("p10", "p10")} if alone else {"median": ("p10", "max")}
    return [
        {
            "label": f"{prefix}{'10th percentile' if middle == 'p10' else 'median'}",
            "diverged": False,
            "points": {name: _points(run, name, middle, *band) for name in _names(run)},
        }
        for middle, band in told.items()
    ]


def _points(run: StoredRun, name: str, middle: str, low: str, high: str) -> dict[str, Any]:
    known = [(record.round + 1, spread) for record in run.records if (spread := record.clients.get(name))]
    drawn = {"mean": middle, "low": low, "high": high}
    values = {key: [spread[which] for _, spread in known] for key, which in drawn.items()}
    return {"x": {"rounds": [t for t, _ in known]}} | values


def _names(run: StoredRun) -> list[str]:
    return list(dict.fromkeys(name for record in run.records for name, spread in record.clients.items() if spread))


def _newest(run: StoredRun) -> Record | None:
    return next((record for record in reversed(run.records) if record.clients), None)


# --- every client ---


def _tables(runs: Sequence[StoredRun]) -> list[PageSection]:
    """Every client's newest values beside what it owns."""
    found = [(run, record) for run in runs if (record := _newest(run)) is not None]
    return [_table(run, record, len(found) > 1) for run, record in found]


def _table(run: StoredRun, record: Record, several: bool) -> PageSection:
    measured = {name: spread for name, spread in record.clients.items() if spread}
    told = [
        f"{name}: median {spread['median']:.4g}, worst tenth {spread['worst_decile']:.4g}, "
        f"from {spread['min']:.4g} to {spread['max']:.4g}"
        for name, spread in measured.items()
    ]
    values = {name: spread["values"] for name, spread in measured.items() if spread["values"] is not None}
    counts = _counts_or_reason(run)
    owned = {} if isinstance(counts, str) else counts[1]
    clients = range(min((len(column) for column in values.values()), default=0))
    return Table(
        title=f"Clients' own tests ({run.path.name})" if several else "Clients' own tests",
        note=f"After round {record.round + 1}. {'; '.join(told)}.",
        columns=["client", *values, *(["samples", "largest classes"] if owned else [])],
        rows=[
            [cell(client), *(_value(name, column[client]) for name, column in values.items()), *_owned(owned, client)]
            for client in clients
        ],
    )


def _value(name: str, value: float | None) -> TableCell:
    return cell(value, f"{value:.1%}" if name == "accuracy" and value is not None else None)


def _owned(counts: Mapping[str, Sequence[int]], client: int) -> list[TableCell]:
    """How many training samples a client has, and the shares of its largest classes."""
    if not counts:
        return []
    own = {label: column[client] for label, column in counts.items() if client < len(column)}
    total = sum(own.values())
    if not total:
        return [cell(None), cell(None)]
    largest = sorted((label for label in own if own[label]), key=lambda label: -own[label])[:_CLASSES]
    shares = ", ".join(f"{label.removeprefix('class ')}: {own[label] / total:.0%}" for label in largest)
    return [cell(total, str(total)), cell(shares if len(own) > 1 else None)]


# --- who owns what ---


def client_bars(runs: Sequence[StoredRun]) -> list[PageSection]:
    """Stacked bars for every distinct federation among the runs; of those that differ in the seed only the first."""
    distinct: dict[object, StoredRun] = {}
    for run in runs:
        distinct.setdefault((run.config.data, run.config.partition, run.config.clients), run)
    return [_bars(run) for run in distinct.values()]


def _bars(run: StoredRun) -> PageSection:
    config = run.config
    title = f"Samples of the clients ({config.data.name}, partition {config.partition.name})"
    found = _counts_or_reason(run)
    if isinstance(found, str):  # the data set of a stored run need not be on this machine
        return Text(title=title, note=f"Not shown: {found}", parts=[])
    count, counts = found
    shown = len(next(iter(counts.values())))
    first = f"the first {shown} of {count} clients" if shown < count else f"all {shown} clients"
    return Bars(
        title=title,
        note=f"Training samples of {first}, for seed {config.seed}.",
        stacks=[{"label": label, "values": values} for label, values in counts.items()],
        x_label="client",
        each="client",
    )


def _counts_or_reason(run: StoredRun) -> tuple[int, Counts] | str:
    """How many clients there are, and what the first of them own; or why that cannot be told."""
    try:
        if kept := kept_clients(run.path):
            return kept["clients"], kept["counts"]
        if code := own_code({name: getattr(run.config, name).model_dump() for name in ("data", "partition")}):
            return f"that would run {', '.join(code)}, and a report runs no code."
    except FedamdError as error:
        return str(error)
    wanted = {"data", "partition", "clients", "seed", "test_share", "cohort"}
    return _rebuilt(json.dumps(run.config.model_dump(mode="json", include=wanted)))


@lru_cache(maxsize=32)  # a page that is watched asks every second
def _rebuilt(wanted: str) -> tuple[int, Counts] | str:
    try:
        config = Config.model_validate(json.loads(wanted), context={"stored": True})
        dataset = load_data(config)
        clients = share_out(config, dataset)
        if config.test_share is not None:
            clients, _ = hold_out(dataset, clients, config.test_share, config.seed)
        return len(clients), class_counts(dataset, clients)
    except FedamdError as error:
        return str(error)
