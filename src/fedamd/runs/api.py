"""Running from Python: `fedamd.run(config)`, the same thing the command line does."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from fedamd.algorithms.base import Algorithm
from fedamd.data.base import Dataset
from fedamd.engines import make_engine
from fedamd.oracles.objective import load_parameters
from fedamd.runs.config import Config, load_config
from fedamd.runs.experiment import Experiment, build_experiment
from fedamd.runs.records import Folder
from fedamd.runs.rounds import drive
from fedamd.runs.run import Listener, Record, Run
from fedamd.runs.summary import summarise


@dataclass(frozen=True)
class Result:
    """What a run leaves: its summary, its metrics and the final model."""

    summary: Record
    metrics: list[Record]
    x: Tensor
    model: nn.Module  # with x loaded
    folder: Path | None


def run(
    config: Config | Path | str | Mapping[str, Any] | None = None,
    *,
    out: Path | str | None = None,
    dataset: Dataset | None = None,
    model: nn.Module | None = None,
    algorithm: Algorithm | None = None,
    listen: Listener | None = None,
    **changes: Any,
) -> Result:
    """Train. `config` is a TOML file, a dictionary or a `Config`; keyword arguments change its keys.

    `dataset`, `model` and `algorithm` are objects that stand in for the sections of those names. Records are written to
    the folder `out`, or kept in memory alone without one.

    >>> fedamd.run(rounds=20, algorithm=fedamd.FedAMD(eta_l=0.05, tau=2)).summary["final_accuracy"]
    """
    settled = config if isinstance(config, Config) and not changes else load_config(_plain(config), changes)
    experiment = build_experiment(settled, dataset=dataset, model=model, algorithm=algorithm)
    folder = Folder.create(Path(out), settled) if out is not None else None
    return train(experiment, folder, listen)


def resume(folder: Path | str, *, listen: Listener | None = None, **changes: Any) -> Result:
    """Go on with the run in `folder` from its last checkpoint, exactly as if it had never stopped."""
    opened = Folder.open(Path(folder))
    experiment = build_experiment(opened.config(changes))
    return train(experiment, opened, listen, restore=True)


def train(
    experiment: Experiment, folder: Folder | None, listen: Listener | None = None, restore: bool = False
) -> Result:
    """Drive one run to its end, recording in `folder`."""
    config = experiment.config
    one = Run(experiment, folder.held() if folder and config.client_store == "disk" else None)
    engine = make_engine(config.engine, config.oracle, experiment.model, experiment.dataset, config.micro_batch)
    if folder and restore:
        folder.restore(one)

    def heard(which: Run, record: Record) -> None:
        if folder:
            folder.add(which, record)
        if listen:
            listen(which, record)

    with deferred_interrupt() as interrupted:
        drive([one], engine, heard, interrupted)
    status = "interrupted" if one.live else one.status
    if folder and one.live:
        folder.save(one)
    summary = folder.finish(one, status) if folder else summarise(one, status)
    load_parameters(experiment.model, one.state.x)
    return Result(summary, one.records, one.state.x, experiment.model, folder.path if folder else None)


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C waits for the end of the round; a second one does not wait."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return

    def note(*_: object) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, previous)


def _plain(config: Config | Path | str | Mapping[str, Any] | None) -> Path | str | Mapping[str, Any] | None:
    return config.plain() if isinstance(config, Config) else config
