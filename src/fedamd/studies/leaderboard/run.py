"""Running a leaderboard: tuning and reported runs of several entrants in lockstep, every finished run stored.

`python -m fedamd.studies.leaderboard.run` is the command for a machine with PyTorch, NumPy and pydantic alone.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from fedamd.engines.base import Engine
from fedamd.errors import FedamdError
from fedamd.registry import choose
from fedamd.runs.api import engine_for
from fedamd.runs.experiment import Experiment, build_experiment
from fedamd.runs.run import Run
from fedamd.runs.session import Session, Sink, deferred_interrupt
from fedamd.studies.leaderboard.board import Entrant, LeaderboardSetting, read_board
from fedamd.studies.leaderboard.store import LeaderboardStore, Line
from fedamd.studies.leaderboard.tuning import Point, best, points

Say = Callable[[str], None]


class Stopped(Exception):
    """Interrupted, or out of time: what is finished is stored."""


@dataclass(frozen=True)
class LeaderboardTrial:
    """One run to be had: an entrant at a point, on a seed, for so many rounds."""

    entrant: Entrant
    point: int
    seed: int
    rounds: int


@dataclass
class Runner:
    """Makes the runs of one setting that are missing."""

    setting: LeaderboardSetting
    store: LeaderboardStore
    device: str = "cpu"
    stop: Callable[[], bool] = lambda: False
    say: Say = lambda _: None
    engine: Engine | None = None
    going: dict[tuple[str, int, int], Run] = field(default_factory=dict)  # trials that a later rung may go on with
    worlds: dict[int, Experiment] = field(default_factory=dict)  # by seed: data, clients, model and x_0 are shared
    _points: dict[str, list[Point]] = field(default_factory=dict)  # by label

    def algorithm(self, trial: LeaderboardTrial) -> dict[str, Any]:
        return trial.entrant.section(self.setting.method, self.points(trial.entrant)[trial.point])

    def points(self, entrant: Entrant) -> list[Point]:
        if entrant.label not in self._points:
            self._points[entrant.label] = points(entrant.space, entrant.defaults, self.setting.trials)
        return self._points[entrant.label]

    def declared(self, trial: LeaderboardTrial) -> dict[str, Any]:
        return self.setting.declared(self.algorithm(trial), trial.seed, trial.rounds)

    def line(self, trial: LeaderboardTrial, curve: bool = False) -> Line | None:
        return self.store.get(self.declared(trial), curve)

    def make(self, trials: Sequence[LeaderboardTrial], curve: bool = False) -> None:
        """Have all of these in the store, those that are missing made in one lockstep."""
        missing = [trial for trial in trials if self.line(trial, curve) is None]
        if not missing:
            return
        if self.stop():
            raise Stopped
        began = time.perf_counter()
        lockstep = [self._run(trial) for trial in missing]
        keeping = _Keeping(self, dict(zip(map(id, lockstep), missing, strict=True)), curve)
        if self.engine is None:
            self.engine = engine_for(lockstep[0].experiment)
        Session(lockstep, self.engine, [keeping], interrupted=self.stop).run()
        if any(run.live for run in lockstep):
            raise Stopped
        took = time.perf_counter() - began
        self.say(f"{self.setting.name}: {len(missing)} runs to round {missing[0].rounds} in {took:.1f} s")

    def _run(self, trial: LeaderboardTrial) -> Run:
        """The trial's run: continued from its last rung where that is still here, else begun at x_0."""
        config = self.setting.config(self.algorithm(trial), trial.seed, trial.rounds, self.device)
        run = self.going.get(_key(trial))
        if run is None:
            if trial.seed not in self.worlds:
                self.worlds[trial.seed] = build_experiment(config)
            world = self.worlds[trial.seed]
            run = Run(replace(world, config=config, algorithm=config.build_algorithm()))
            self.going[_key(trial)] = run
        elif run.status == "finished":  # of the rung before
            run.config, run.status = config, "running"
        return run


class _Keeping(Sink):
    """Writes every run that ends into the store, at once."""

    def __init__(self, runner: Runner, trials: Mapping[int, LeaderboardTrial], curve: bool) -> None:
        self._runner, self._trials, self._curve = runner, trials, curve

    def end(self, run: Run, status: str) -> None:
        if status != "interrupted":
            trial, runner = self._trials[id(run)], self._runner
            runner.store.add(runner.setting.name, trial.entrant.label, runner.declared(trial), run, self._curve)


def tune(runner: Runner, entrants: Sequence[Entrant]) -> dict[str, int]:
    """The best point of every entrant, by label: successive halving, the last rung on all tuning seeds."""
    setting = runner.setting
    alive = {entrant.label: list(range(len(runner.points(entrant)))) for entrant in entrants}
    for rung, rounds in enumerate(setting.rungs):
        last = rounds == setting.rungs[-1]
        seeds = setting.tuning_seeds if last else setting.tuning_seeds[:1]
        trials = {
            (entrant.label, point): [LeaderboardTrial(entrant, point, seed, rounds) for seed in seeds]
            for entrant in entrants
            for point in alive[entrant.label]
        }
        runner.make([trial for some in trials.values() for trial in some])
        keep = 1 if last else setting.kept(rung + 1)
        for label in alive:
            scores = {point: _mean(runner, trials[label, point]) for point in alive[label]}
            alive[label] = best(scores, keep)
    return {label: chosen[0] for label, chosen in alive.items()}


def _mean(runner: Runner, trials: Sequence[LeaderboardTrial]) -> float:
    lines = [runner.line(trial) for trial in trials]
    return fmean(line["score"] for line in lines if line is not None)


def report(runner: Runner, entrants: Sequence[Entrant]) -> dict[str, list[Line]]:
    """Tune these entrants, run each at its best point on the reported seeds, and give their lines by label."""
    chosen = tune(runner, entrants)
    runner.going.clear()
    trials = [
        LeaderboardTrial(entrant, chosen[entrant.label], seed, runner.setting.rounds)
        for entrant in entrants
        for seed in runner.setting.seeds
    ]
    runner.make(trials, curve=True)
    runner.going.clear()
    lines: dict[str, list[Line]] = {}
    for trial in trials:
        line = runner.line(trial, curve=True)
        assert line is not None
        lines.setdefault(trial.entrant.label, []).append(line)
    return lines


def stored(setting: LeaderboardSetting, entrants: Sequence[Entrant], store: LeaderboardStore) -> dict[str, list[Line]]:
    """The reported lines of the entrants that are complete, by label; nothing is run."""
    found: dict[str, list[Line]] = {}
    for entrant in competing(setting, entrants):
        try:
            found |= report(Runner(setting, store, stop=lambda: True), [entrant])
        except Stopped:
            continue
    return found


def competing(setting: LeaderboardSetting, entrants: Sequence[Entrant]) -> list[Entrant]:
    return [entrant for entrant in entrants if entrant.label not in setting.without]


def run_board(
    settings: Sequence[LeaderboardSetting],
    entrants: Sequence[Entrant],
    store: LeaderboardStore,
    *,
    device: str = "cpu",
    together: int = 8,
    seconds: float | None = None,
    say: Say = lambda _: None,
) -> bool:
    """Make what is missing, `together` entrants at a time in every setting; whether all of it is there now."""
    end = None if seconds is None else time.monotonic() + seconds
    with deferred_interrupt() as pressed:

        def stop() -> bool:
            return pressed() or (end is not None and time.monotonic() > end)

        try:
            runners = [Runner(setting, store, device, stop, say) for setting in settings]
            for start in range(0, len(entrants), together):
                for runner in runners:
                    group = _waiting(runner, entrants[start : start + together])
                    say(f"{runner.setting.name}: {'; '.join(entrant.label for entrant in group) or 'nothing to do'}")
                    report(runner, group)
        except Stopped:
            return False
    return True


def _waiting(runner: Runner, entrants: Sequence[Entrant]) -> list[Entrant]:
    done = stored(runner.setting, entrants, runner.store)
    return [entrant for entrant in competing(runner.setting, entrants) if entrant.label not in done]


def chosen(
    settings: Sequence[LeaderboardSetting], entrants: Sequence[Entrant], only: Sequence[str], methods: Sequence[str]
) -> tuple[list[LeaderboardSetting], list[Entrant]]:
    """Those of these names, in the order of the names; all where none are given."""
    named, labelled = {one.name: one for one in settings}, {one.label: one for one in entrants}
    return (
        [choose(named, name, "--only") for name in only or named],
        [choose(labelled, label, "--methods") for label in methods or labelled],
    )


def _key(trial: LeaderboardTrial) -> tuple[str, int, int]:
    return trial.entrant.label, trial.point, trial.seed


def main() -> int:
    """The command, without the command line's packages."""
    parser = argparse.ArgumentParser(description=run_board.__doc__)
    parser.add_argument("board", type=Path, help="the folder of methods.toml and the settings")
    parser.add_argument("results", type=Path, help="the folder of the store")
    parser.add_argument("--only", nargs="*", default=[], help="settings")
    parser.add_argument("--methods", nargs="*", default=[], help="entrants")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--together", type=int, default=8, help="entrants in one lockstep")
    parser.add_argument("--seconds", type=float, default=None, help="stop after so many")
    words = parser.parse_args()
    try:
        settings, entrants = chosen(*read_board(words.board), words.only, words.methods)
        how = {"device": words.device, "together": words.together, "seconds": words.seconds}
        began = time.monotonic()
        complete = run_board(
            settings,
            entrants,
            LeaderboardStore(words.results),
            **how,
            say=lambda text: print(f"[{time.monotonic() - began:6.1f}] {text}", flush=True),
        )
    except FedamdError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0 if complete else 3


if __name__ == "__main__":
    sys.exit(main())
