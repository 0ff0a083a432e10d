"""Who owns which classes: a config's clients, rebuilt from its data set, partition and seed."""

from collections.abc import Sequence

import torch

from fedamd.data.base import Clients, Dataset
from fedamd.errors import FedamdError
from fedamd.report.page import Bars, Section, Text
from fedamd.runs.config import Config
from fedamd.runs.experiment import load_data, share_out
from fedamd.runs.trust import own_code

SHOWN = 200  # bars beyond this many are narrower than a pixel on a phone


def client_bars(configs: Sequence[Config]) -> list[Section]:
    """Stacked bars for every distinct federation among the configs; of those that differ in the seed only the first."""
    distinct = {(config.data, config.partition, config.clients): config for config in reversed(configs)}
    return [_bars(config) for config in reversed(distinct.values())]


def _bars(config: Config) -> Section:
    title = f"Samples of the clients ({config.data.name}, partition {config.partition.name})"
    if code := own_code({"data": config.data.model_dump(), "partition": config.partition.model_dump()}):
        note = f"Not shown: that would run {', '.join(code)}, and a report runs no code."
        return Text(title=title, note=note, parts=[])
    try:
        dataset = load_data(config)
        clients = share_out(config, dataset)
    except FedamdError as error:  # the data set of a stored run need not be on this machine
        return Text(title=title, note=f"Not shown: {error}", parts=[])
    shown = min(len(clients), SHOWN)
    first = f"the first {shown} of {len(clients)} clients" if shown < len(clients) else f"all {shown} clients"
    return Bars(
        title=title,
        note=f"Training samples of {first}, for seed {config.seed}.",
        stacks=[{"label": label, "values": counts} for label, counts in _counts(dataset, clients, shown).items()],
        x_label="client",
        each="client",
    )


def _counts(dataset: Dataset, clients: Clients, shown: int) -> dict[str, list[int]]:
    """Samples of every class on each of the first clients; all samples together where there are no classes."""
    if not dataset.classes:
        return {"samples": [clients.sizes[m] for m in range(shown)]}
    targets = dataset.targets.cpu()
    rows = [torch.bincount(targets[clients.samples(m).cpu()], minlength=dataset.classes) for m in range(shown)]
    return {f"class {label}": counts for label, counts in enumerate(torch.stack(rows).T.tolist())}
