"""Finished runs of a reproduction, one compact file for each experiment: JSON lines, each under its config's hash.

A run that is in the store is never computed again, on this machine or another. What does not change a run's result
(where and how it was executed) is not part of the hash.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedamd.errors import FedamdError
from fedamd.runs.config import Config
from fedamd.runs.run import Run
from fedamd.runs.summary import summarise

_HOW = {"device", "engine", "oracle", "micro_batch", "checkpoint_every", "client_store"}
_CURVES = {"accuracy": 4, "loss": 5}  # digits kept


def config_hash(config: Config) -> str:
    """Twelve hex digits that name what is run."""
    plain = {key: value for key, value in config.plain().items() if key not in _HOW}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:12]


class Store:
    """The runs of one experiment."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._grid: dict[str, dict[str, Any]] = {}  # runs of a grid: their summaries
        self._curves: dict[str, dict[str, Any]] = {}  # runs over seeds: their curves too
        if path.exists():
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                try:
                    self._take(json.loads(line))
                except (json.JSONDecodeError, KeyError, TypeError):
                    raise FedamdError(f"{path}, line {number}: not a finished run; remove that line") from None

    def get(self, config: Config, curves: bool = False) -> dict[str, Any] | None:
        """The finished run of this config, if there is one: of a grid, or with its curves.

        The same config may be there in both ways with slightly different results: on a GPU the last bits of a run
        depend on what else is in its stack, and training a network amplifies them.
        """
        return (self._curves if curves else self._grid).get(config_hash(config))

    def _take(self, entry: dict[str, Any]) -> None:
        (self._curves if "accuracy" in entry else self._grid)[entry["hash"]] = entry

    def add(self, run: Run, curves: bool, context: Mapping[str, Any]) -> None:
        """Remember a run that has ended; a line is written at once, so nothing finished is ever lost."""
        records = [record for record in run.records if record["round"] >= 0]
        entry = {"hash": config_hash(run.config), **context, **summarise(run, run.status)}
        if curves:
            entry |= {name: [_rounded(r[name], digits) for r in records] for name, digits in _CURVES.items()}
            entry["gradients"] = [record["gradient_samples"] for record in records]
            entry["bits"] = [record["bits_up"] + record["bits_down"] for record in records]
        self._take(entry)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, separators=(",", ":")) + "\n")


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
