"""Finished runs of a reproduction, one compact file for each experiment: JSON lines, each under its config's hash.

A run that is in the store is never computed again, on this machine or another, whichever experiment it was made for:
figures share some of their curves. What does not change a run's result (where and how it was executed) is not part of
the hash. A line is the run's summary and the machine it was made on;
runs over seeds have their curves too:

    accuracy, loss    after each round, four digits behind the point
    costs             what a round can cost: the different [gradient samples, bits up and down]
    rounds_cost       for each round, which of `costs` it was
"""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedamd.errors import FedamdError
from fedamd.files import append_line, make_folder, read_text
from fedamd.runs.config import Config
from fedamd.runs.run import Run
from fedamd.runs.summary import summarise

Entry = dict[str, Any]
_HOW = {"device", "engine", "oracle", "micro_batch", "checkpoint_every", "client_store"}
_DIGITS = 4  # more than 10,000 test images can tell apart


def config_hash(config: Config) -> str:
    """Twelve hex digits that name what is run."""
    plain = {key: value for key, value in config.plain().items() if key not in _HOW}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:12]


class PaperStore:
    """The runs in a folder. An entry has its curves as lists: accuracy, loss, and cumulative gradients, bits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._grid: dict[str, Entry] = {}  # runs of a grid: their summaries
        self._curves: dict[str, Entry] = {}  # runs over seeds: their curves too
        if folder.exists() and not folder.is_dir():
            raise FedamdError(f"{folder} is a file: choose another --out")
        for path in sorted(folder.glob("*.jsonl")):
            self._read(path)

    def _read(self, path: Path) -> None:
        for number, line in enumerate(read_text(path).split("\n")[:-1], start=1):  # a last line cut short: not there
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError):
                raise FedamdError(f"{path}, line {number}: not a finished run; remove that line") from None

    def path(self, experiment: str) -> Path:
        """Where the runs made for this experiment are written."""
        return self.folder / f"{experiment}.jsonl"

    def get(self, name: str, curves: bool = False) -> Entry | None:
        """The finished run of the config with this hash, if there is one: of a grid, or with its curves.

        The same config may be there in both ways with slightly different results: on a GPU the last bits of a run
        depend on what else is in its stack, and training a network amplifies them.
        """
        return (self._curves if curves else self._grid).get(name)

    def __len__(self) -> int:
        """How many runs there are; it only grows."""
        return len(self._grid) + len(self._curves)

    def _take(self, line: Entry) -> None:
        with_curves = "accuracy" in line
        entry = line | cumulative(line.pop("costs"), line.pop("rounds_cost")) if with_curves else line
        (self._curves if with_curves else self._grid)[entry["hash"]] = entry

    def add(self, experiment: str, run: Run, curves: bool, context: Mapping[str, Any]) -> None:
        """Remember a run that has ended; a line is written at once, so nothing finished is ever lost."""
        line = {"hash": config_hash(run.config), **context, **summarise(run, run.status)}
        line["machine"] = machine(run.config)
        if curves:
            records = [record for record in run.records if record.round >= 0]
            line |= {name: [record.measured(name) for record in records] for name in ("accuracy", "loss")}
            totals = [(record.gradient_samples, record.bits) for record in records]
            line |= per_round(totals)
        text = json.dumps(_rounded(line), separators=(",", ":"))
        make_folder(self.folder)
        append_line(self.path(experiment), text)
        self._take(json.loads(text))


def machine(config: Config) -> str:
    """Where a run is made, in a line."""
    device = torch.cuda.get_device_name() if config.device == "cuda" else f"CPU, {platform.machine()}"
    python = ".".join(platform.python_version_tuple()[:2])
    return f"{device}, PyTorch {torch.__version__.partition('+')[0]}, Python {python}"


def per_round(totals: Sequence[tuple[int, int]]) -> Entry:
    """Cumulative (gradients, bits) as the different costs of a round, and which of them each round had."""
    steps = [(g - g_before, b - b_before) for (g_before, b_before), (g, b) in pairwise([(0, 0), *totals])]
    costs = list(dict.fromkeys(steps))
    return {"costs": [list(cost) for cost in costs], "rounds_cost": [costs.index(step) for step in steps]}


def cumulative(costs: Sequence[Sequence[int]], rounds_cost: Sequence[int]) -> Entry:
    """What `per_round` made short, at full length again."""
    rounds = np.array(costs, dtype=np.int64).reshape(-1, 2)[np.array(rounds_cost, dtype=np.int64)]
    totals = rounds.cumsum(axis=0)
    return {name: totals[:, which].tolist() for which, name in enumerate(("gradients", "bits"))}


def _rounded(value: Any) -> Any:
    """Every number in it with the digits that are kept."""
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return {key: _rounded(one) for key, one in value.items()} if isinstance(value, dict) else value
