"""Running from Python: `fedamd.run(config)`, the same thing the command line does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from fedamd.algorithms.base import Algorithm
from fedamd.callbacks import Guarded, OfEach, configured
from fedamd.data.base import Dataset
from fedamd.engines import Engine, make_engine
from fedamd.engines.client_store import ClientStore, MemoryStore
from fedamd.engines.distributed import DistributedEngine, Ranks, ShardedStore, in_step, join
from fedamd.errors import FedamdError
from fedamd.oracles.objective import load_parameters
from fedamd.runs.clients_file import keep_clients
from fedamd.runs.config import Config, load_config
from fedamd.runs.experiment import Experiment, build_experiment
from fedamd.runs.folder import Folder
from fedamd.runs.given import given_sections, refuse_others, words
from fedamd.runs.records import Record
from fedamd.runs.run import Listener, Run
from fedamd.runs.session import FolderSink, Session, Sink, as_sinks
from fedamd.runs.summary import Summary, summarise
from fedamd.torchrun import is_writer


@dataclass(frozen=True)
class Result:
    """What a run leaves: its summary, its metrics and the final model."""

    summary: Summary
    metrics: list[Record]
    x: Tensor
    model: nn.Module  # with x loaded
    folder: Path | None


def run(
    config: Config | Path | str | Mapping[str, Any] | None = None,
    *,
    out: Path | str | None = None,
    dataset: Dataset | None = None,
    model: nn.Module | Mapping[str, Any] | None = None,
    algorithm: Algorithm | Mapping[str, Any] | None = None,
    listen: Listener | Sink | None = None,
    callbacks: Sequence[Sink] = (),
    **changes: Any,
) -> Result:
    """Train. `config` is a TOML file, a dictionary or a `Config`; keyword arguments change its keys.

    `dataset`, `model` and `algorithm` are objects that stand in for the sections of those names, or sections themselves
    (`algorithm={"name": "fedavg"}`). `callbacks` are told what becomes of the run and may stop it.
    Records are written to the folder `out`, or kept in memory alone without one.

    >>> fedamd.run(rounds=20, algorithm=fedamd.FedAMD(eta_l=0.05, tau=2)).summary["final_accuracy"]
    """
    if model is not None and not isinstance(model, nn.Module):
        changes["model"], model = model, None
    if algorithm is not None and not isinstance(algorithm, Algorithm):
        changes["algorithm"], algorithm = algorithm, None
    given = given_sections(dataset, model, algorithm)
    if isinstance(config, Config):
        settled = config.changed(changes) if changes else config
    else:
        settled = load_config(config, dict(changes) | given)
    ranks = join(settled.device)
    with in_step(ranks):
        experiment = build_experiment(settled, dataset=dataset, model=model, algorithm=algorithm)
        engine = engine_for(experiment, ranks)
        _check_store(settled, out is not None, ranks)  # what cannot run leaves no folder behind
        folder = _new_folder(out, experiment)
    return _trained(experiment, engine, ranks, folder, listen, callbacks)


def resume(
    folder: Path | str,
    *,
    dataset: Dataset | None = None,
    model: nn.Module | None = None,
    algorithm: Algorithm | None = None,
    listen: Listener | Sink | None = None,
    callbacks: Sequence[Sink] = (),
    trust: bool = False,
    **changes: Any,
) -> Result:
    """Go on with the run in `folder` from its last checkpoint, exactly as if it had never stopped.

    Objects that stood in for sections when the run began must be given again. `trust` runs the code that the config
    of a folder names which somebody else has made.
    """
    opened = Folder.open(Path(folder), writes=is_writer())
    config = opened.config(changes, trust=trust)
    if opened.environment().get("given"):  # of an earlier version, whose config does not tell of the objects
        opened.check_given(words(dataset, model, algorithm))
    else:
        refuse_others(config, given_sections(dataset, model, algorithm))
    ranks = join(config.device)
    with in_step(ranks):
        experiment = build_experiment(config, dataset=dataset, model=model, algorithm=algorithm)
        engine = engine_for(experiment, ranks)
        _check_store(config, True, ranks)
    return _trained(experiment, engine, ranks, opened, listen, callbacks)


def _trained(
    experiment: Experiment,
    engine: Engine,
    ranks: Ranks,
    folder: Folder | None,
    listen: Listener | Sink | None,
    callbacks: Sequence[Sink],
) -> Result:
    """One run to its end, recorded in `folder` if there is one."""
    one = Run(experiment, _held(experiment.config, folder, ranks))
    kept: list[Sink] = [FolderSink({one: folder})] if folder else []
    told = [OfEach({one: configured(experiment.config)}), *map(Guarded, callbacks), *as_sinks(listen)]
    Session([one], engine, [*kept, *told], ranks=ranks).run()
    load_parameters(experiment.model, one.state.x)
    summary = summarise(one, "interrupted" if one.live else one.status)
    return Result(summary, one.records, one.state.x, experiment.model, folder.path if folder else None)


def engine_for(experiment: Experiment, ranks: Ranks) -> Engine:
    """The engine the config asks for, spread over the processes there are."""
    config = experiment.config
    inner = "auto" if config.engine == "distributed" else config.engine
    engine = make_engine(
        inner, config.oracle, experiment.model, experiment.dataset, config.micro_batch, config.precision
    )
    return DistributedEngine(engine, ranks) if ranks.world > 1 else engine


def _check_store(config: Config, has_folder: bool, ranks: Ranks) -> None:
    if config.client_store == "disk" and (not has_folder or ranks.world > 1):
        raise FedamdError('client_store = "disk" is for one process with a run folder; use client_store = "memory"')


def _held(config: Config, folder: Folder | None, ranks: Ranks) -> ClientStore:
    if config.client_store == "disk" and folder:
        return folder.held()
    return ShardedStore(ranks, config.device) if ranks.world > 1 else MemoryStore()


def _new_folder(out: Path | str | None, experiment: Experiment) -> Folder | None:
    if out is None:
        return None
    folder = Folder.create(Path(out), experiment.config, is_writer(), theory=experiment.theory)
    if is_writer():
        keep_clients(folder.path, experiment)
    return folder
