"""Running the paper's experiments, every finished run stored.

The paper takes each method at its best rates and averages three seeds. Here every pair of the grid is run on one seed,
the few best of them (the finalists) on all seeds, and the pair with the best mean final accuracy is the cell's result:
rates at the edge of stability can be best on one seed and collapse on the next.

The grid is all η_l × η_s. A smaller one, for less, takes its η_s from what Table 2 chose for the same method and
cohort: see `SEARCHES`.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

from fedamd.data import where
from fedamd.engines.base import Engine
from fedamd.errors import FedamdError
from fedamd.files import make_folder
from fedamd.registry import choose
from fedamd.runs.api import engine_for
from fedamd.runs.config import Config, load_config
from fedamd.runs.experiment import build_experiment
from fedamd.runs.run import Listener, Run
from fedamd.runs.session import Session, as_sinks, deferred_interrupt
from fedamd.studies.paper.experiments import EXPERIMENTS, METHODS, PaperCurve, PaperExperiment
from fedamd.studies.paper.store import PaperStore, config_hash

Rates = tuple[float, float]  # η_l, η_s
Problem = tuple[str, str]  # data set and model: what an engine is made for


@dataclass(frozen=True)
class Search:
    """Which pairs of rates are tried on one seed, and how many of them then run on all."""

    finalists: int
    tried: str


SEARCHES = {
    "grid": Search(3, "all η_l × η_s"),
    "local": Search(2, "all η_l, with Table 2's η_s for the method and cohort"),
}


@dataclass(frozen=True)
class Protocol:
    """How long, how often and where."""

    rounds: int = 400
    seeds: int = 3
    device: str = "cpu"
    rates: str | None = None  # one of SEARCHES; None: the one the experiment declares

    def __post_init__(self) -> None:
        if self.rates not in (None, *SEARCHES):
            raise FedamdError(f"rates: should be {' or '.join(SEARCHES)}, not {self.rates}")
        load_config({}, {"rounds": self.rounds, "device": self.device})  # what is wrong with them is told here


@lru_cache(maxsize=1 << 14)  # whoever reads a store asks again and again
def _named(cell: PaperCurve, rates: Rates, seed: int, rounds: int, device: str) -> tuple[str, Config]:
    config = load_config(cell.config(*rates, seed, rounds), {"device": device})
    return config_hash(config), config


@dataclass(frozen=True)
class ReproducedCurve:
    """A cell's result: the rates that were best, how every pair of the grid did, and the runs over seeds."""

    cell: PaperCurve
    rates: Rates
    grid: Mapping[Rates, Mapping[str, Any]]  # on the first seed
    repeated: Mapping[Rates, Sequence[Mapping[str, Any]]]  # the finalists that have been run on all seeds
    planned: int  # how many finalists there are
    search: str = "grid"  # how the rates were found: one of SEARCHES

    @property
    def label(self) -> str:
        return self.cell.label

    @property
    def complete(self) -> bool:
        """Whether all finalists have been run on all seeds."""
        return len(self.repeated) == self.planned

    @property
    def runs(self) -> Sequence[Mapping[str, Any]]:
        """Over the seeds, at the best rates."""
        return self.repeated[self.rates]


QUICK = Protocol(rounds=6, seeds=1)


def quick(experiment: PaperExperiment) -> PaperExperiment:
    """A small share of an experiment, to see that everything works: the smallest cohort and two pairs of rates."""
    smallest = min(cell.cohort for cell in experiment.cells)
    few = tuple(cell for cell in experiment.cells if cell.cohort == smallest)
    return replace(experiment, cells=few, local_rates=(0.1, 0.03), server_rates=(1.0,), search="grid")


def reproduce(
    experiments: Sequence[PaperExperiment],
    folder: Path,
    protocol: Protocol,
    listen: Listener,
    announce: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[PaperExperiment, list[ReproducedCurve]]]:
    """All cells of each experiment; what is in the store already is not run again. Ctrl-C stops after a round."""
    store, engines = PaperStore(folder), dict[Problem, Engine]()
    with deferred_interrupt() as interrupted:
        for experiment in experiments:
            runner = _Runner(experiment, store, protocol, listen, interrupted, engines)
            yield experiment, list(_cells(runner, announce))
            if interrupted():
                break


def _cells(runner: "_Runner", announce: Callable[[str], None]) -> Iterator[ReproducedCurve]:
    for cell in runner.experiment.cells:
        if not runner.interrupted():
            announce(f"{runner.experiment.name}: {cell.label}, {cell.panel}")
        with contextlib.suppress(_Stopped):
            yield _cell(cell, runner)


def stored(experiment: PaperExperiment, store: PaperStore, protocol: Protocol) -> list[ReproducedCurve]:
    """The cells of an experiment that are finished, all with rates from grids of the same kind."""
    readers = [_reader(experiment, store, replace(protocol, rates=rates)) for rates in SEARCHES]
    return max((list(_stored_cells(reader)) for reader in readers), key=len)


def _stored_cells(reader: "_Runner") -> Iterator[ReproducedCurve]:
    for cell in reader.experiment.cells:
        with contextlib.suppress(_Stopped, FedamdError):
            yield _cell(cell, reader)


class _Stopped(Exception):
    """A cell could not be completed: interrupted."""


@dataclass(frozen=True)
class _Runner:
    experiment: PaperExperiment
    store: PaperStore
    protocol: Protocol
    listen: Listener
    interrupted: Callable[[], bool]
    engines: dict[Problem, Engine]  # kept warm from cell to cell
    kept: dict[str, Run] = field(default_factory=dict)  # the runs of a cell so far, by hash, with all their records

    @property
    def search(self) -> str:
        return self.protocol.rates or self.experiment.search

    def named(self, cell: PaperCurve, rates: Rates, seed: int) -> tuple[str, Config]:
        """One run of a cell: its config under its hash."""
        return _named(cell, rates, seed, self.protocol.rounds, self.protocol.device)

    def finished(self, runs: Iterable[tuple[str, Config]], curves: bool, label: str) -> list[Mapping[str, Any]]:
        """The stored entries of these runs, those missing computed first, in lockstep."""
        named = dict(runs)
        missing = [name for name in named if self.store.get(name, curves) is None]
        self._keep([self.kept[name] for name in missing if name in self.kept], curves, label)
        missing = [name for name in missing if name not in self.kept]
        if missing and not self.interrupted():
            self._keep(self._run([named[name] for name in missing]), curves, label)
        entries = [self.store.get(name, curves) for name in named]
        if any(entry is None for entry in entries):
            raise _Stopped
        return [entry for entry in entries if entry is not None]

    def _run(self, configs: Sequence[Config]) -> list[Run]:
        runs = [Run(build_experiment(config)) for config in configs]
        problem = (configs[0].data.name, configs[0].model.name)
        if problem not in self.engines:
            self.engines[problem] = engine_for(runs[0].experiment)
        make_folder(self.store.folder)  # only now that nothing is refused; where it cannot be, hours would be lost
        Session(runs, self.engines[problem], as_sinks(self.listen), interrupted=self.interrupted).run()
        return [run for run in runs if run.status != "running"]

    def _keep(self, runs: Sequence[Run], curves: bool, label: str) -> None:
        for run in runs:
            algorithm = run.config.algorithm.options
            context = {"label": label, "cohort": run.config.cohort, "seed": run.config.seed}
            context |= {"eta_l": algorithm["eta_l"], "eta_s": algorithm["eta_s"]}
            self.store.add(self.experiment.name, run, curves, context)
            self.kept[config_hash(run.config)] = run


class _Reader(_Runner):
    """One that computes nothing, and looks no further where something is missing."""

    def finished(self, runs: Iterable[tuple[str, Config]], curves: bool, label: str) -> list[Mapping[str, Any]]:  # noqa: ARG002
        return [self._entry(name, curves) for name, _ in runs]

    def _entry(self, name: str, curves: bool) -> Mapping[str, Any]:
        entry = self.store.get(name, curves)
        if entry is None:
            raise _Stopped
        return entry


def _reader(experiment: PaperExperiment, store: PaperStore, protocol: Protocol) -> _Reader:
    return _Reader(experiment, store, protocol, lambda *_: None, lambda: True, {})


def _cell(cell: PaperCurve, runner: _Runner) -> ReproducedCurve:
    runner.kept.clear()
    pairs, search = _pairs(cell, runner), runner.search
    entries = runner.finished((runner.named(cell, pair, 0) for pair in pairs), False, cell.label)
    grid = dict(zip(pairs, entries, strict=True))
    finalists = best_rates({pair: [entry] for pair, entry in grid.items()})[: SEARCHES[search].finalists]
    repeated = _repeated(cell, finalists, runner)
    return ReproducedCurve(cell, best_rates(repeated)[0], grid, repeated, len(finalists), search)


def _pairs(cell: PaperCurve, runner: _Runner) -> list[Rates]:
    """The rates to try on one seed."""
    if runner.search == "grid":
        return runner.experiment.rates()
    _, eta_s = _rates_of_table2(cell, runner)
    return [(eta_l, eta_s) for eta_l in runner.experiment.local_rates]


def _repeated(cell: PaperCurve, finalists: Sequence[Rates], runner: _Runner) -> dict[Rates, list[Mapping[str, Any]]]:
    """The runs over all seeds of each pair of rates, all in one lockstep; at least of one pair."""
    seeds = range(runner.protocol.seeds)
    named = {pair: dict(runner.named(cell, pair, seed) for seed in seeds) for pair in finalists}
    with contextlib.suppress(_Stopped):
        runner.finished((run for some in named.values() for run in some.items()), True, cell.label)
    complete: dict[Rates, list[Mapping[str, Any]]] = {}
    for pair, some in named.items():
        found = (runner.store.get(name, curves=True) for name in some)
        entries = [entry for entry in found if entry is not None]
        if len(entries) == len(some):
            complete[pair] = list(entries)
    if not complete:
        raise _Stopped
    return complete


def best_rates(runs: Mapping[Rates, Sequence[Mapping[str, Any]]]) -> list[Rates]:
    """The pairs by mean final accuracy, best first."""
    return sorted(runs, key=lambda pair: fmean(final_accuracy(run) for run in runs[pair]), reverse=True)


def final_accuracy(run: Mapping[str, Any]) -> float:
    """After the last round; a run that diverged counts as no accuracy at all."""
    return float(run["final_accuracy"]) if run["status"] == "finished" else 0.0


def _rates_of_table2(cell: PaperCurve, runner: _Runner) -> Rates:
    """What Table 2's grid chose for the same method with the same cohort (for K = 10, b' = 64, b = full)."""
    kind = "constant" if "p" in cell.algorithm else "sequential"
    label = cell.label if cell.label in METHODS else f"FedAMD ({kind})"
    rates = _best_of_table2(runner.store, len(runner.store), replace(runner.protocol, rates="grid")).get(
        (label, cell.cohort)
    )
    if rates is None:
        raise FedamdError(
            f"{runner.experiment.name} starts from the rates of Table 2, where {label} with {cell.cohort} clients is "
            "not finished: run `fedamd reproduce table2` first, or search the whole grid with --rates grid"
        )
    return rates


@lru_cache(maxsize=1)  # every cell of every figure asks
def _best_of_table2(store: PaperStore, _size: int, protocol: Protocol) -> dict[tuple[str, int], Rates]:
    reader = _reader(EXPERIMENTS["table2"], store, protocol)
    return {(outcome.label, outcome.cell.cohort): outcome.rates for outcome in _stored_cells(reader)}


def chosen_experiments(names: Sequence[str]) -> Iterator[PaperExperiment]:
    """Experiments by name; "all" is every one whose data set is at hand."""
    for name in names:
        if name == "all":
            yield from (one for one in EXPERIMENTS.values() if all(map(where, {cell.data for cell in one.cells})))
        else:
            yield choose(EXPERIMENTS, name, "reproduce")


def only(experiment: PaperExperiment, words: Sequence[str]) -> PaperExperiment:
    """The cells whose label or panel contains every one of these words."""
    cells = tuple(c for c in experiment.cells if all(word in c.label or word in c.panel for word in words))
    if not cells:
        raise FedamdError(f"--only {' '.join(words)} leaves nothing of {experiment.name}")
    return replace(experiment, cells=cells)
