"""The one place that drives runs: several in lockstep over one engine, with sinks that are told what becomes of them.

`run`, `resume`, sweeps, comparisons, federations, studies and benchmarks all go through a `Session`. Only here are
folders locked, is Ctrl-C deferred to the end of a round, and is the end of a run told.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from fedamd.engines.base import Engine
from fedamd.engines.distributed import Ranks, agreed, in_step
from fedamd.runs.folder import Folder
from fedamd.runs.records import Record
from fedamd.runs.rounds import drive
from fedamd.runs.run import Listener, Run

Question = Callable[[], bool]


class Sink:
    """Is told what becomes of runs: a subclass overrides what it wants to know. Sinks are told in their order."""

    def hold(self, run: Run) -> AbstractContextManager[None]:  # noqa: ARG002
        """What is held on to for as long as the session lasts, such as a lock."""
        return nullcontext()

    def begin(self, run: Run) -> None:
        """Before the first round that is played in this session."""

    def recorded(self, run: Run, record: Record) -> None:
        """After every round, and after the start-up pass (round −1)."""

    def checkpointed(self, run: Run) -> None:
        """Where a checkpoint is due: the folder's sink writes it, and those after it can rely on it."""

    def end(self, run: Run, status: str) -> None:
        """When the run is finished, has diverged, or is interrupted."""


class Listening(Sink):
    """A function that is told of every record."""

    def __init__(self, listen: Listener) -> None:
        self._listen = listen

    def recorded(self, run: Run, record: Record) -> None:
        self._listen(run, record)


class FolderSink(Sink):
    """Keeps every run in its folder: goes on where the run was left, and writes records, checkpoints and the end."""

    def __init__(self, folders: Mapping[Run, Folder]) -> None:
        self._folders = folders

    def hold(self, run: Run) -> AbstractContextManager[None]:
        return self._folders[run].alone()

    def begin(self, run: Run) -> None:
        self._folders[run].restore(run)

    def recorded(self, run: Run, record: Record) -> None:
        self._folders[run].add(run, record)

    def end(self, run: Run, status: str) -> None:
        if run.live or status == "stopped":  # between two checkpoints
            self._folders[run].save(run)
        self._folders[run].finish(run, status)


def as_sinks(*listeners: Listener | Sink | None) -> list[Sink]:
    """Functions as sinks; None is nobody."""
    told = [one for one in listeners if one is not None]
    return [one if isinstance(one, Sink) else Listening(one) for one in told]


class Session:
    """Runs, the engine that plays their clients, and the sinks that are told.

    `interrupted` is asked between rounds; without it the session itself defers Ctrl-C to the end of a round.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        engine: Engine,
        sinks: Sequence[Sink] = (),
        *,
        ranks: Ranks | None = None,
        interrupted: Question | None = None,
    ) -> None:
        self.runs = list(runs)
        self._engine = engine
        self._sinks = list(sinks)
        self._ranks = ranks or Ranks()
        self._interrupted = interrupted
        self._ended: set[int] = set()

    def run(self) -> None:
        """Every run to its end, or all to an interruption."""
        with self.opened():
            self.advance()

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Between the runs' beginning and their end, so that a caller can advance in several pieces."""
        with ExitStack() as stack:
            if self._interrupted is None:
                self._interrupted = stack.enter_context(deferred_interrupt())
            with in_step(self._ranks):
                for run in self.runs:
                    for sink in self._sinks:
                        stack.enter_context(sink.hold(run))
                for run in self.runs:
                    for sink in self._sinks:
                        sink.begin(run)
            self._tell_ends()
            yield
            for run in self.runs:
                self._end(run, "interrupted")

    def advance(self, until: Question = lambda: False) -> None:
        """Play rounds until all runs have ended, somebody interrupts, or `until` says so."""
        drive(self.runs, self._engine, self._recorded, lambda: until() or self._stopped())

    def _stopped(self) -> bool:
        """All processes of a run stop after the same round."""
        pressed = self._interrupted is not None and self._interrupted()
        return pressed if self._ranks.world == 1 else agreed(pressed)

    def _recorded(self, run: Run, record: Record) -> None:
        for sink in self._sinks:
            sink.recorded(run, record)
        if run.checkpoint_due:
            for sink in self._sinks:
                sink.checkpointed(run)
        if not run.live:
            self._end(run, run.status)

    def _tell_ends(self) -> None:
        for run in self.runs:
            if not run.live:  # ended before, perhaps killed before that was written down
                self._end(run, run.status)

    def _end(self, run: Run, status: str) -> None:
        if id(run) not in self._ended:
            self._ended.add(id(run))
            for sink in self._sinks:
                sink.end(run, status)


@contextmanager
def deferred_interrupt() -> Iterator[Question]:
    """The first Ctrl-C (or SIGTERM, as torchrun sends it) waits for the end of the round; a second one does not."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return

    def note(*_: object) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield pressed.is_set
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
