"""Running from Python: `fedamd.run(config)`, the same thing the command line does."""

import copy
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedamd.algorithms.base import Algorithm, Size
from fedamd.data.base import Dataset
from fedamd.engines import Engine
from fedamd.engines.client_store import ClientStore, MemoryStore
from fedamd.engines.distributed import DistributedEngine, Ranks, ShardedStore, in_step, join
from fedamd.engines.factory import ResolvedEngine, choose_engine
from fedamd.errors import FedamdError
from fedamd.oracles.base import Oracle
from fedamd.oracles.objective import load_parameters
from fedamd.runs.callbacks import Guarded, configured
from fedamd.runs.clients_file import keep_clients
from fedamd.runs.config import Config, load_config, refuse_given
from fedamd.runs.experiment import Experiment, build_experiment, build_model, load_data
from fedamd.runs.folder import MODEL, Folder
from fedamd.runs.given import given_sections, refuse_others, words
from fedamd.runs.model_file import load_weights
from fedamd.runs.progress import Progress
from fedamd.runs.records import Record
from fedamd.runs.room import refuse_what_has_no_room
from fedamd.runs.run import Listener, Run
from fedamd.runs.session import FolderSink, Session, Sink, as_sinks
from fedamd.runs.summary import Summary, summarise
from fedamd.torchrun import is_writer

Objects = dict[str, Any]  # dataset, model and algorithm, those of them that are objects


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
    dataset: Dataset | Mapping[str, Any] | str | None = None,
    model: nn.Module | Mapping[str, Any] | str | None = None,
    algorithm: Algorithm | Mapping[str, Any] | str | None = None,
    engine: Engine | str | None = None,
    oracle: Oracle | str | None = None,
    listen: Listener | Sink | None = None,
    callbacks: Sequence[Sink] = (),
    progress: bool = False,
    **changes: Any,
) -> Result:
    """Train. `config` is a TOML file, a dictionary or a `Config`; keyword arguments change its keys.

    `dataset`, `model` and `algorithm` stand in for the sections of those names: an object, a name, or a section
    (`algorithm={"name": "fedavg", "eta_l": 0.1}`). Objects are not changed. `engine` and `oracle` are objects or names.
    Records are written to the folder `out`; without one they are only kept in memory. The number of clients can be left
    out where the data set has clients of its own. `callbacks` are told what becomes of the run and may stop it;
    `progress` shows how far it has got.

    >>> fedamd.run(rounds=20, algorithm=fedamd.FedAMD(eta_l=0.05, tau=2)).summary["final_accuracy"]
    """
    objects, named = sort_parts(dataset, model, algorithm)
    changes |= named | {key: one for key, one in (("engine", engine), ("oracle", oracle)) if isinstance(one, str)}
    if isinstance(config, Config):
        settled = config.changed(changes) if changes else config
    else:
        settled = load_config(config, dict(changes) | given_sections(**objects))
    ranks = join(settled.device)
    with in_step(ranks):
        experiment = build_experiment(settled, **objects)
        resolved = resolve_engine(experiment, engine, oracle)
        _check_store(settled, out is not None, ranks)  # what cannot run leaves no folder behind
        _check_room(experiment, ranks)
        callbacks = [*configured(experiment.config, Path(out) if out is not None else None), *callbacks]
        folder = new_folder(Path(out), experiment, resolved) if out is not None else None
    return _trained(experiment, resolved.engine, ranks, folder, listen, callbacks, progress)


def resume(
    folder: Path | str,
    *,
    dataset: Dataset | None = None,
    model: nn.Module | None = None,
    algorithm: Algorithm | None = None,
    engine: Engine | str | None = None,
    oracle: Oracle | str | None = None,
    listen: Listener | Sink | None = None,
    callbacks: Sequence[Sink] = (),
    progress: bool = False,
    trust: bool = False,
    **changes: Any,
) -> Result:
    """Continue the run in `folder` from its last checkpoint, exactly as if it had never stopped.

    Objects that the config cannot name must be given again, and must be the same. `trust` allows code to be
    run that the config of somebody else's folder names.
    """
    changes |= {key: one for key, one in (("engine", engine), ("oracle", oracle)) if isinstance(one, str)}
    opened = Folder.open(Path(folder), writes=is_writer())
    config = opened.config(changes, trust=trust)
    if opened.environment().get("given"):  # of an earlier version, whose config does not tell of the objects
        opened.check_given(words(dataset, model, algorithm))
    else:
        refuse_others(config, given_sections(dataset, model, algorithm))
    ranks = join(config.device)
    with in_step(ranks):
        experiment = build_experiment(config, dataset=dataset, model=model, algorithm=algorithm)
        resolved = resolve_engine(experiment, engine, oracle)
        _check_store(config, True, ranks)
        _check_room(experiment, ranks)
        callbacks = [*configured(experiment.config, opened.path), *callbacks]
    return _trained(experiment, resolved.engine, ranks, opened, listen, callbacks, progress)


def load_model(
    folder: Path | str, model: nn.Module | None = None, dataset: Dataset | None = None, trust: bool = False
) -> nn.Module:
    """The trained model of the run in `folder`; objects that its config cannot name must be given again.

    >>> fedamd.load_model("runs/mine")(images).argmax(-1)
    """
    opened = Folder.open(Path(folder))
    path = opened.path / MODEL
    if not path.exists():
        raise FedamdError(f"{opened.path} has no {MODEL} yet: the run has not ended")
    config = opened.config(trust=trust)
    if model is None:
        refuse_given(config.model, "model")
        opened.refuse_unnamed("model", *(["dataset"] if dataset is None else []))
        net = build_model(config, dataset or load_data(config))
    else:
        net = copy.deepcopy(model)
    net = net.to(dtype=getattr(torch, config.dtype))
    load_weights(net, path)
    return net


def sort_parts(
    dataset: Dataset | Mapping[str, Any] | str | None = None,
    model: nn.Module | Mapping[str, Any] | str | None = None,
    algorithm: Algorithm | Mapping[str, Any] | str | None = None,
) -> tuple[Objects, dict[str, Any]]:
    """The parts that are objects, and the sections of those that are named."""
    objects: Objects = {}
    named: dict[str, Any] = {}
    for argument, section, part in (
        ("dataset", "data", dataset),
        ("model", "model", model),
        ("algorithm", "algorithm", algorithm),
    ):
        if isinstance(part, str | Mapping):
            named[section] = {"name": part} if isinstance(part, str) else dict(part)
        elif part is not None:
            objects[argument] = part
    return objects, named


def _trained(
    experiment: Experiment,
    engine: Engine,
    ranks: Ranks,
    folder: Folder | None,
    listen: Listener | Sink | None,
    callbacks: Sequence[Sink],
    progress: bool,
) -> Result:
    """One run to its end, recorded in `folder` if there is one."""
    one = Run(experiment, _client_store(experiment.config, folder, ranks))
    kept: list[Sink] = [FolderSink({one: folder})] if folder else []
    spread = DistributedEngine(engine, ranks) if ranks.world > 1 else engine
    with Progress() if progress and is_writer() else nullcontext() as shown:
        Session([one], spread, [*kept, *map(Guarded, callbacks), *as_sinks(shown, listen)], ranks=ranks).run()
    load_parameters(experiment.model, one.state.x)
    summary = summarise(one, "interrupted" if one.live else one.status)
    return Result(summary, one.records, one.state.x, experiment.model, folder.path if folder else None)


def resolve_engine(
    experiment: Experiment, engine: Engine | str | None = None, oracle: Oracle | str | None = None
) -> ResolvedEngine:
    """The engine and the oracle the config asks for, or the objects given, and why no faster ones."""
    config = experiment.config
    named = "auto" if config.engine == "distributed" else config.engine
    return choose_engine(
        named if engine is None or isinstance(engine, str) else engine,
        config.oracle if oracle is None or isinstance(oracle, str) else oracle,
        experiment.model,
        experiment.dataset,
        config.micro_batch,
        config.precision,
        _usual_batch(experiment.algorithm),
    )


def _usual_batch(algorithm: Algorithm) -> Size:
    """What most gradients will be asked for on, as far as the method says so: in one's own it may mean anything."""
    size = getattr(algorithm, "small_batch", None)
    return size if isinstance(size, int) and size > 0 else "full"


def engine_for(experiment: Experiment) -> Engine:
    """The engine the config asks for, in this process."""
    return resolve_engine(experiment).engine


def _check_store(config: Config, has_folder: bool, ranks: Ranks) -> None:
    if config.client_store == "disk" and (not has_folder or ranks.world > 1):
        raise FedamdError('client_store = "disk" is for one process with a run folder; use client_store = "memory"')


def _check_room(experiment: Experiment, ranks: Ranks) -> None:
    if ranks.world == 1:  # of several processes each holds a part
        refuse_what_has_no_room([experiment])


def _client_store(config: Config, folder: Folder | None, ranks: Ranks) -> ClientStore:
    if config.client_store == "disk" and folder:
        return folder.client_store()
    on_host = config.client_store == "host"
    return ShardedStore(ranks, config.device, on_host) if ranks.world > 1 else MemoryStore(on_host)


def new_folder(path: Path, experiment: Experiment, resolved: ResolvedEngine) -> Folder:
    """The folder of a run that begins."""
    folder = Folder.create(path, experiment.config, is_writer(), theory=experiment.theory, execution=resolved.facts())
    if is_writer():
        keep_clients(folder.path, experiment)
    return folder
