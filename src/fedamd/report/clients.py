"""The clients on a page: who owns which classes, and how the model does on each of them."""

from collections.abc import Sequence

from fedamd.errors import FedamdError
from fedamd.report.page import Bars, Section, Table, Text, cell
from fedamd.report.stored import StoredRun
from fedamd.runs.clients_file import Counts, class_counts, kept_clients
from fedamd.runs.config import Config
from fedamd.runs.experiment import load_data, share_out
from fedamd.runs.records import Record
from fedamd.runs.trust import own_code


def client_bars(runs: Sequence[StoredRun]) -> list[Section]:
    """Stacked bars for every distinct federation among the runs; of those that differ in the seed only the first."""
    distinct: dict[object, StoredRun] = {}
    for run in runs:
        distinct.setdefault((run.config.data, run.config.partition, run.config.clients), run)
    return [_bars(run) for run in distinct.values()]


def _bars(run: StoredRun) -> Section:
    config = run.config
    title = f"Samples of the clients ({config.data.name}, partition {config.partition.name})"
    try:
        count, counts = _counts(run)
    except FedamdError as error:  # the data set of a stored run need not be on this machine
        return Text(title=title, note=f"Not shown: {error}", parts=[])
    shown = len(next(iter(counts.values())))
    first = f"the first {shown} of {count} clients" if shown < count else f"all {shown} clients"
    return Bars(
        title=title,
        note=f"Training samples of {first}, for seed {config.seed}.",
        stacks=[{"label": label, "values": values} for label, values in counts.items()],
        x_label="client",
        each="client",
    )


def _counts(run: StoredRun) -> tuple[int, Counts]:
    if kept := kept_clients(run.path):
        return kept["clients"], kept["counts"]
    if code := own_code({name: getattr(run.config, name).model_dump() for name in ("data", "partition")}):
        raise FedamdError(f"that would run {', '.join(code)}, and a report runs no code.")
    return _rebuilt(run.config)


def _rebuilt(config: Config) -> tuple[int, Counts]:
    dataset = load_data(config)
    clients = share_out(config, dataset)
    return len(clients), class_counts(dataset, clients)


def client_tables(runs: Sequence[StoredRun]) -> list[Section]:
    """How each run's newest evaluation on the clients' own tests is spread, and every client's values."""
    found = [(run, record) for run in runs if (record := _newest(run)) is not None]
    return [_client_table(run, record, len(found) > 1) for run, record in found]


def _newest(run: StoredRun) -> Record | None:
    return next((record for record in reversed(run.records) if record.clients), None)


def _client_table(run: StoredRun, record: Record, several: bool) -> Section:
    measured = {name: spread for name, spread in record.clients.items() if spread}
    told = [
        f"{name}: median {spread['median']:.4g}, worst tenth {spread['worst_decile']:.4g}, "
        f"from {spread['min']:.4g} to {spread['max']:.4g}"
        for name, spread in measured.items()
    ]
    values = {name: spread["values"] for name, spread in measured.items() if spread["values"] is not None}
    count = min((len(column) for column in values.values()), default=0)
    rows = [[cell(client), *(cell(column[client]) for column in values.values())] for client in range(count)]
    return Table(
        title=f"Clients' own tests ({run.path.name})" if several else "Clients' own tests",
        note=f"After round {record.round + 1}. {'; '.join(told)}.",
        columns=["client", *values],
        rows=rows,
    )
