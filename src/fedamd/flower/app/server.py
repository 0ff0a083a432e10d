"""The server: an ordinary run whose engine is a federation.

A run lives in its folder. Starting the server on an empty folder begins the run; on the folder of a run that was
stopped, killed or crashed it goes on from the last checkpoint: only the round in flight is done again.
"""

import contextlib
import fcntl
import logging
import os
import secrets
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from torch import Tensor

from fedamd.engines import Engine, make_engine
from fedamd.engines.factory import AUTO
from fedamd.errors import FedamdError
from fedamd.files import write_text
from fedamd.flower.app.acknowledged import Acknowledged
from fedamd.flower.app.engine import FlowerEngine
from fedamd.flower.app.mailbox import Mailbox
from fedamd.flower.app.recorder import Recorder
from fedamd.flower.app.roster import Roster, Sizes, read_keys
from fedamd.flower.app.settings import FederationSettings, read_settings
from fedamd.flower.app.task import CLIENTS_ENGINE, FederatedTask, load_task
from fedamd.flower.metrics import Page
from fedamd.oracles.objective import flat_parameters
from fedamd.runs.callbacks import OfEach, configured
from fedamd.runs.config import Config
from fedamd.runs.experiment import Experiment
from fedamd.runs.folder import CONFIG, Folder
from fedamd.runs.run import Run
from fedamd.runs.sealed import read_json, sealed_json
from fedamd.runs.session import Session

log = logging.getLogger("fedamd.flower")
IDENTITY = "federation.json"  # in the run's folder: its name, and how often a server was started on it
LOCK = "federation.lock"

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """What Flower calls."""
    show_log()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    logging.getLogger("flwr").addFilter(_sentence_for_traceback)
    lead(Mailbox(grid), context.run_config)


def _end_with(parent: int, pause: float = 1.0, grace: float = 5.0) -> None:
    """End this process when Flower's, which started it, has: without it no round can end. Flower's own notice is a
    SIGINT, for which a run ends its round first, and its requests are tried again without end."""
    while os.getppid() == parent:
        time.sleep(pause)
    time.sleep(grace)
    os._exit(1)


def _sentence_for_traceback(record: logging.LogRecord) -> bool:
    """Flower shows a traceback for whatever ends a run; a user's mistake is a sentence."""
    if record.exc_info and isinstance(record.exc_info[1], FedamdError):
        record.msg, record.args, record.exc_info = f"error: {record.exc_info[1]}", (), None
    return True


def show_log() -> None:
    """Our own lines, not those of HTTP libraries, on standard output: Flower shows it to whoever follows the run."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.INFO)


class RemoteData:
    """The clients' data as the server knows it: how much each has, and nothing else."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes

    def __len__(self) -> int:
        return len(self.sizes)

    def samples(self, client: int) -> Tensor:
        raise NotImplementedError("a remote client's samples stay with it")

    def gather(self, clients: Tensor, positions: Tensor) -> Tensor:
        raise NotImplementedError("a remote client's samples stay with it")

    def to(self, device: torch.device | str) -> "RemoteData":  # noqa: ARG002
        return self


def lead(mailbox: Mailbox, run_config: Mapping[str, Any]) -> Run:
    """Begin the run in its folder, or go on with it, to its end."""
    config, settings = read_settings(run_config)
    folder = _folder(Path(settings.folder), config)
    with _sole_server(folder.path):
        return _lead(mailbox, config, settings, folder)


def _lead(mailbox: Mailbox, config: Config, settings: FederationSettings, folder: Folder) -> Run:
    keys = read_keys(Path(settings.keys)) if settings.keys else None
    patience = max(settings.deadline, settings.start_wait)  # a first answer takes a client its imports and its data
    roster = Roster(mailbox, config.clients, keys, ttl=patience)
    task = load_task(config, settings)
    experiment = _experiment(config, task, roster)
    acknowledged = Acknowledged()
    run = Run(experiment, acknowledged)
    name, epoch = _identity(folder.path)
    engine = FlowerEngine(
        mailbox, roster, acknowledged, experiment.algorithm, settings, name, epoch, _evaluator(config, task, experiment)
    )
    page = Page("server")
    if settings.metrics_port:
        page.serve(settings.metrics_port)
    recorder = Recorder(folder, engine, acknowledged, page)
    session = Session([run], engine, [recorder, OfEach({run: configured(config, folder.path)})])
    with session.opened():  # Ctrl-C waits for the end of a round
        if run.live:
            _gather(roster, config, settings)
        _advance(session, run, engine, recorder, acknowledged, settings.renew)
    return run


def _advance(
    session: Session, run: Run, engine: FlowerEngine, recorder: Recorder, acknowledged: Acknowledged, renew: bool
) -> None:
    """To the end. Where a client has lost what it held, the server's sum of what clients hold has a part that nobody
    can take out again: a new start-up pass at the present model replaces it, once for each client that loses something.
    """
    excused: set[int] = set()

    def must_renew() -> bool:
        return renew and bool(engine.lost - excused)

    session.advance(must_renew)
    while run.live and must_renew():
        excused.update(engine.lost)
        log.warning("clients %s have lost what they held: all begin anew", ", ".join(map(str, sorted(engine.lost))))
        acknowledged.forget()
        recorder.begins_anew(run)
        run.started = False
        session.advance(must_renew)


def _folder(path: Path, config: Config) -> Folder:
    """The run's folder, new or found; a found one must be of the same run."""
    if not (path / CONFIG).exists():
        return Folder.create(path.absolute(), config, execution=_execution(config))
    folder = Folder.open(path.absolute())
    before, now = folder.config().plain(), config.plain()
    changed = sorted(key for key in before | now if key != "rounds" and before.get(key) != now.get(key))
    if changed:
        raise FedamdError(
            f"{path} holds a run with other settings ({', '.join(changed)}): choose another federation.folder, "
            "or start it with the settings it was begun with"
        )
    return folder


def _execution(config: Config) -> dict[str, str]:
    """What the server knows of how gradients are computed: every client plays its own role, on its own machine."""
    oracle = config.oracle if config.oracle != AUTO else "the fastest that each client has"
    return {"engine": "flower", "clients_engine": CLIENTS_ENGINE, "oracle": oracle, "precision": config.precision}


@contextlib.contextmanager
def _sole_server(path: Path) -> Iterator[None]:
    """Two servers on one run would undo each other's work. The lock of one that is killed is gone with it."""
    with (path / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FedamdError(
                f"another server is at work on the run in {path}: wait for it, or stop it by Ctrl-C where it is "
                "followed, or by `flwr stop` with the number that `fedamd federation status` shows"
            ) from None
        yield


def _identity(path: Path) -> tuple[str, int]:
    """The run's name and the number of this start, on disk before the first message is sent."""
    file = path / IDENTITY
    known = read_json(file, "run", "epoch") if file.exists() else {"run": secrets.token_hex(8), "epoch": 0}
    if not isinstance(known["epoch"], int):
        raise FedamdError(f"{file} is damaged: the number of this start is no number")
    name, epoch = str(known["run"]), known["epoch"] + 1
    write_text(file, sealed_json({"run": name, "epoch": epoch}))
    return name, epoch


def _experiment(config: Config, task: FederatedTask, roster: Roster) -> Experiment:
    model = task.build_model(config, config.device)
    data = task.server_dataset(config)
    return Experiment(config, data, RemoteData(roster.sizes), model, config.build_algorithm(), flat_parameters(model))


def _evaluator(config: Config, task: FederatedTask, experiment: Experiment) -> Engine | None:
    """What measures test loss and accuracy, where the task has test samples."""
    if task.test_data is None:
        return None
    return make_engine("loop", "autograd", experiment.model, experiment.dataset, config.micro_batch, config.precision)


def _gather(roster: Roster, config: Config, settings: FederationSettings) -> None:
    """Give the clients time to connect, then go with those that have."""
    wanted = min(settings.start_clients or config.clients, config.clients)
    log.info("waiting up to %g s for %d clients", settings.start_wait, wanted)
    present = roster.wait_for(wanted, settings.start_wait)
    log.info("%d of %d clients are connected", present, config.clients)
