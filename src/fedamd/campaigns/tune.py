"""Tuning: the best hyper-parameters of a method for a budget, with far fewer rounds than a grid takes.

Optuna suggests trials in batches. A batch runs in lockstep; after a ninth and a third of the budget the better third
goes on and the others are stopped (successive halving). Trials are compared at equal cost: by the last evaluation that
a share of the budget in rounds, gradients, bits or seconds allows. Scores are what runs are judged by (the first of the
config's metrics, else accuracy or the test loss), negated where less is better; a trial that diverged is below all.

runs/trial-0007   every trial is an ordinary run; one that was stopped can be continued
tune.json         what the tuning was begun with: another one is refused
trials.csv        where every trial was, how far it got, how it scored
best.toml         a config for the best of those that got the whole budget
"""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedamd.algorithms import ALGORITHMS
from fedamd.algorithms.space import Choice, Range
from fedamd.campaigns.suggest import Point, Suggester, Told
from fedamd.campaigns.sweep import open_run
from fedamd.engines.factory import ResolvedEngine
from fedamd.errors import FedamdError
from fedamd.files import exclusively, make_folder, read_text, write_text
from fedamd.metrics import Measure
from fedamd.registry import choose
from fedamd.runs.api import resolve_engine
from fedamd.runs.config import Config, load_config, to_toml
from fedamd.runs.experiment import Experiment
from fedamd.runs.folder import Folder
from fedamd.runs.records import Record
from fedamd.runs.run import Listener, Run
from fedamd.runs.session import FolderSink, Question, Session, Sink, as_sinks, deferred_interrupt
from fedamd.torchrun import processes

BEGUN = "tune.json"
SHARES = (1 / 9, 1 / 3, 1.0)  # of the budget, at which a batch is judged
KEPT = 3  # one in so many goes on
COSTS: dict[str, Callable[[Sequence[Record]], float]] = {  # of a run with these records
    "rounds": lambda records: float(records[-1].round + 1),
    "gradients": lambda records: float(records[-1].gradient_samples),
    "bits": lambda records: float(records[-1].bits),
    "seconds": lambda records: sum(record.seconds for record in records),
}


@dataclass(frozen=True)
class TuningBudget:
    """What one trial may cost at most."""

    cost: str
    amount: float

    @classmethod
    def parse(cls, text: str) -> "TuningBudget":
        """`rounds=400`, `gradients=1e7`, `bits=1e9` or `seconds=60`."""
        cost, _, amount = text.partition("=")
        choose(COSTS, cost, "--budget")
        try:
            budget = cls(cost, float(amount))
        except ValueError:
            budget = cls(cost, 0.0)
        if not 0 < budget.amount < float("inf"):
            raise FedamdError(f"--budget {text}: should be a cost and a number above 0, as in gradients=1e7")
        return budget

    def spent(self, records: Sequence[Record]) -> float:
        """By a run with these records; the start-up is in no total."""
        played = [record for record in records if record.round >= 0]
        return COSTS[self.cost](played) if played else 0.0

    def score(self, run: Run, share: float) -> float | None:
        """What the run is judged by, as last measured within this share of the budget; larger is better."""
        if run.status == "diverged":
            return None
        played = [record for record in run.records if record.round >= 0]
        for end in range(len(played), 0, -1):
            measured = _score(run, played[end - 1])
            if measured is not None and COSTS[self.cost](played[:end]) <= share * self.amount * (1 + 1e-9):
                return measured
        return next((score for record in played if (score := _score(run, record)) is not None), None)


@dataclass(frozen=True)
class TuningPlan:
    """What a tuning is to do."""

    config: Mapping[str, Any]  # the base of every trial
    space: Mapping[str, Range]  # config key → where it is searched
    trials: int
    batch: int
    budget: TuningBudget
    folder: Path

    def trial(self, point: Point) -> Config:
        return load_config(self.config, point)

    def path(self, number: int) -> Path:
        return self.folder / "runs" / f"trial-{number:04d}"

    def begun(self) -> dict[str, Any]:
        """What must be the same for the tuning to be continued; the number of trials may grow."""
        space = {key: repr(where) for key, where in self.space.items()}
        budget = {self.budget.cost: self.budget.amount}
        return json.loads(json.dumps({"config": self.config, "space": space, "budget": budget, "batch": self.batch}))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Trial:
    """What became of one."""

    number: int
    point: Point
    share: float  # of the budget that it got
    score: float | None  # None: it diverged
    status: str


@dataclass(frozen=True)
class Tuned:
    """What a tuning came to."""

    plan: TuningPlan
    trials: list[Trial]
    importance: dict[str, float]
    rounds: int  # played by all trials together
    interrupted: bool
    measure: Measure  # what trials are judged by

    @property
    def best(self) -> Trial | None:
        """Of those that got the whole budget; the earlier of equals."""
        whole = [trial for trial in self.trials if trial.share == 1.0 and trial.score is not None]
        return max(whole, key=lambda trial: (trial.score, -trial.number), default=None)


def plan(
    config: Path | str | Mapping[str, Any] | None,
    folder: Path,
    *,
    trials: int = 100,
    batch: int = 27,
    budget: TuningBudget | None = None,
    search: Mapping[str, Range] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> TuningPlan:
    """A tuning of the config's method over its own space, and the keys of `search` on top or in place of it."""
    base = load_config(config, changes)
    own = {f"algorithm.{key}": where for key, where in ALGORITHMS.find(base.algorithm.name).space.items()}
    space = {**own, **(search or {})}
    if not space:
        raise FedamdError(
            f"{base.algorithm.name} declares no search space: say where to look, as in "
            "--search algorithm.eta_l=log:0.003:0.3"
        )
    allowed = budget or TuningBudget("rounds", float(base.rounds))
    if allowed.cost == "rounds" and allowed.amount > base.rounds:
        raise FedamdError(f"the budget is {allowed.amount:g} rounds, but the config's runs end after {base.rounds}")
    planned = TuningPlan(base.plain(), space, trials, min(batch, trials), allowed, folder)
    for key, where in space.items():
        for value in where.values if isinstance(where, Choice) else (where.low, where.high):
            try:
                planned.trial({key: value})
            except FedamdError as error:
                raise FedamdError(f"the search space has {key} = {value}, which cannot run: {error}") from None
    return planned


def tune(
    planned: TuningPlan, listen: Listener | Sink | None = None, say: Callable[[str], None] = lambda _: None
) -> Tuned:
    """Run what is missing of the trials, and write down which was best; `say` is told whenever losers are stopped."""
    if processes() > 1:
        raise FedamdError("a tuning runs in one process: start it without torchrun")
    sampler = Suggester(planned.space, _published(planned), planned.trial({}).seed)
    make_folder(planned.folder)
    with exclusively(planned.folder), deferred_interrupt() as interrupted:
        _claim(planned)
        tuner = _Tuner(planned, as_sinks(listen), interrupted, say)
        ended: list[Trial] = []
        for number, first in enumerate(range(0, planned.trials, planned.batch)):
            if interrupted():
                break
            count = min(planned.batch, planned.trials - first)
            told = [Told(trial.point, trial.score, trial.share < 1) for trial in ended]
            ended += tuner.run(first, sampler.batch(number, count, told))
        scores = [Told(trial.point, trial.score, trial.share < 1) for trial in ended]
        result = Tuned(planned, ended, sampler.importance(scores), tuner.rounds, interrupted(), tuner.measure)
        _write(result)
    return result


class _Tuner:
    def __init__(
        self, planned: TuningPlan, sinks: Sequence[Sink], interrupted: Question, say: Callable[[str], None]
    ) -> None:
        self._plan, self._sinks, self._interrupted, self._say = planned, sinks, interrupted, say
        self._resolved: ResolvedEngine | None = None  # the engine of all trials: they share data and model
        self.rounds = 0
        self.measure = Measure()

    def run(self, first: int, points: Sequence[Point]) -> list[Trial]:
        """A batch through all shares of the budget; what was begun before goes on from its checkpoint."""
        opened = [
            open_run(self._plan.trial(point), self._plan.path(number), self._resolve)
            for number, point in enumerate(points, first)
        ]
        self.measure = opened[0][0].experiment.measure
        alive, reached = list(range(len(points))), [0.0] * len(points)
        for place, share in enumerate(SHARES):
            self._advance([opened[index] for index in alive], share)
            for index in alive:
                run, folder = opened[index]
                opened[index] = run, Folder.open(folder.path)
            if self._interrupted():
                break
            for index in alive:
                reached[index] = share
            keep = max(1, round(len(points) / KEPT ** (place + 1)))
            scores = {index: self._plan.budget.score(opened[index][0], share) for index in alive}
            healthy = [index for index in alive if scores[index] is not None]
            self._tell(first, len(points), share, [score for score in scores.values() if score is not None])
            alive = sorted(healthy, key=lambda index: -(scores[index] or 0.0))[:keep]
            if not alive:
                break
        self.rounds += sum(run.t for run, _ in opened)
        return [
            Trial(
                first + index,
                points[index],
                reached[index],
                self._plan.budget.score(run, reached[index]) if reached[index] else None,
                run.status if run.status == "diverged" else "finished" if reached[index] == 1 else "stopped",
            )
            for index, (run, _) in enumerate(opened)
        ]

    def _resolve(self, experiment: Experiment) -> ResolvedEngine:
        self._resolved = self._resolved or resolve_engine(experiment)
        return self._resolved

    def _tell(self, first: int, count: int, share: float, scores: Sequence[float]) -> None:
        best = self.measure.text(self.measure.score(max(scores))) if scores else "none, all diverged"
        where = f"trials {first}–{first + count - 1}" if count > 1 else f"trial {first}"
        self._say(f"{where}, {share:.0%} of the budget: best {self.measure.label} {best}")

    def _advance(self, opened: Sequence[tuple[Run, Folder]], share: float) -> None:
        """All of these until each has spent its share, or has ended."""
        runs, budget = [run for run, _ in opened], self._plan.budget
        engine = self._resolve(runs[0].experiment).engine
        session = Session(runs, engine, [FolderSink(dict(opened)), *self._sinks], interrupted=self._interrupted)

        def enough() -> bool:
            return all(not run.live or budget.spent(run.records) >= share * budget.amount for run in runs)

        with session.opened():
            session.advance(enough)


def _score(run: Run, record: Record) -> float | None:
    measure = run.experiment.measure
    value = record.measured(measure.name)
    return None if value is None else measure.score(value)


def _published(planned: TuningPlan) -> Point:
    """The method's own values of what is searched, where they lie within."""
    sections = planned.config
    point: Point = {}
    for key, where in planned.space.items():
        section, _, name = key.rpartition(".")
        value = (sections.get(section, {}) if section else sections).get(name)
        within = value in where.values if isinstance(where, Choice) else _within(value, where.low, where.high)
        if within:
            point[key] = value
    return point


def _within(value: Any, low: float, high: float) -> bool:
    return isinstance(value, int | float) and low <= value <= high


def _claim(planned: TuningPlan) -> None:
    """Write down what the tuning is; a folder in which something else was begun is refused."""
    path = planned.folder / BEGUN
    if not path.exists():
        if any(one.name != "runs" and not one.name.startswith(".") for one in planned.folder.iterdir()):
            raise FedamdError(f"{planned.folder} is not empty and holds no tuning: choose another --out")
        write_text(path, json.dumps(planned.begun(), indent=2) + "\n")
        return
    try:
        begun = json.loads(read_text(path))
        different = [key for key, value in planned.begun().items() if begun[key] != value]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FedamdError(f"cannot read {path}: {error!r}") from None
    if different:
        raise FedamdError(
            f"{planned.folder} was begun with another {different[0]}: continue it with the command it was begun with, "
            "or choose another --out"
        )


def _write(result: Tuned) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", *result.plan.space, "share_of_budget", "score", "status"])
    for trial in result.trials:
        values = [trial.point[key] for key in result.plan.space]
        writer.writerow([trial.number, *values, round(trial.share, 4), trial.score, trial.status])
    write_text(result.plan.folder / "trials.csv", text.getvalue())
    if best := result.best:
        write_text(result.plan.folder / "best.toml", to_toml(result.plan.trial(best.point).plain()))
