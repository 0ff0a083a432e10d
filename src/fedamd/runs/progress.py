"""How far runs are: a bar on a terminal and in a notebook, plain lines elsewhere."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from fedamd.runs.config import Config
from fedamd.runs.labels import labels
from fedamd.runs.records import Record
from fedamd.runs.run import Run

console = Console()
_LINES = 20  # how many plain lines a run prints where there is no terminal


class _Shown:
    """A bar while it is entered; lines of its own where bars cannot be drawn."""

    def __init__(self, quiet: bool) -> None:
        self._plain = not (console.is_terminal or console.is_jupyter) and not quiet
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}"),
        )
        self._bar = Bar(*columns, TimeRemainingColumn(), console=console, disable=quiet or self._plain)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._bar.disable:  # before version 14, rich ends one that was never shown with an empty line
            self._bar.stop()


class Progress(_Shown):
    """Listens to runs and shows how far each is; `among` are the configs it is to be told apart from."""

    def __init__(self, quiet: bool = False, among: Sequence[Config] = ()) -> None:
        super().__init__(quiet)
        self._among = among
        self._tasks: dict[Run, tuple[TaskID, str]] = {}

    def __call__(self, run: Run, record: Record) -> None:
        if run not in self._tasks:
            label = labels([run.config, *self._among])[0] if self._among else run.config.algorithm.name
            self._tasks[run] = self._bar.add_task(escape(label), total=run.config.rounds, news=""), label
        task, label = self._tasks[run]
        if self._plain and _worth_a_line(run):
            print(f"{label}  round {run.t:>4}/{run.config.rounds}  {news(record)}", flush=True)
        self._bar.update(task, completed=run.t, news=news(record))


class OverallProgress(_Shown):
    """Listens to many runs and shows how far they are together; `rounds` has the rounds of each."""

    def __init__(self, rounds: Sequence[int], quiet: bool = False) -> None:
        super().__init__(quiet)
        self._runs, self._total = len(rounds), sum(rounds)
        self._done: dict[Run, int] = {}
        self._lines = 0
        self._task = self._bar.add_task(f"{self._runs} runs", total=self._total, news="")

    def __call__(self, run: Run, record: Record) -> None:  # noqa: ARG002  their news would be too much
        self._done[run] = run.t if run.live else run.config.rounds  # one that diverged has nothing left to do
        done = sum(self._done.values())
        ended = [run.status for run in self._done if not run.live]
        news = f"{ended.count('finished')} finished" + (f", {bad} diverged" if (bad := ended.count("diverged")) else "")
        if self._plain and done * _LINES >= self._lines * self._total:
            self._lines = done * _LINES // self._total + 1
            print(f"{self._runs} runs  round {done:>5}/{self._total}  {news}", flush=True)
        self._bar.update(self._task, completed=done, news=news)


def _worth_a_line(run: Run) -> bool:
    return not run.live or run.t % max(1, run.config.rounds // _LINES) == 0


def news(record: Record) -> str:
    """Accuracy, metrics of one's own and loss of a round, where they were measured."""
    accuracy = [f"accuracy {100 * record.accuracy:5.1f}%"] if record.accuracy is not None else []
    others = {name: value for name, value in record.metrics.items() if name not in ("accuracy", "test_loss")}
    numbers = others | {"loss": record.loss}
    return "  ".join([*accuracy, *(f"{name} {value:.4g}" for name, value in numbers.items() if value is not None)])
