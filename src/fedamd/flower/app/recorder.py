"""What is written down after every round of a federation: the ordinary record, the faults beside it, a checkpoint."""

import logging

from fedamd.flower.app.acknowledged import Acknowledged
from fedamd.flower.app.engine import EVENTS, FlowerEngine
from fedamd.flower.metrics import Page
from fedamd.runs.folder import Folder
from fedamd.runs.ledger import Ledger
from fedamd.runs.records import Record
from fedamd.runs.rounds import START_UP
from fedamd.runs.run import Run
from fedamd.runs.session import Sink

log = logging.getLogger("fedamd.flower")


class Recorder(Sink):
    """Keeps a run in its folder: goes on where it was left, and writes records, checkpoints and the end."""

    def __init__(self, folder: Folder, engine: FlowerEngine, acknowledged: Acknowledged, page: Page) -> None:
        self._folder = folder
        self._engine = engine
        self._acknowledged = acknowledged
        self._page = page
        self._before = Ledger()  # the costs of the start-up pass, when another one begins

    def begin(self, run: Run) -> None:
        self._folder.restore(run)
        self._engine.attendance.read(self._folder.path)
        if run.t:
            log.info("going on after %d rounds", run.t)
            self._engine.wire = {total: int(run.records[-1].extras[total]) for total in self._engine.wire}

    def begins_anew(self, run: Run) -> None:
        """The next start-up pass is one in the middle of the run: it has no line of its own, and counts."""
        self._before = Ledger(**run.start_up.totals())
        self._engine.events["renewed"] += 1
        self._engine.renewing = True

    def recorded(self, run: Run, record: Record) -> None:
        if self._engine.renewing:
            self._engine.renewing = False
            self._charge_to_the_run(run)
            run.records.pop()
            return
        self._folder.add(run, record)
        self._acknowledged.saved()
        self._engine.who_is_there().write(self._folder.path)
        log.info("%s", _line(run, record))
        self._show(run, record)

    def end(self, run: Run, status: str) -> None:
        if status == "stopped":  # by a callback, after the round was saved as one of a run that goes on
            self._folder.save(run)
        self._folder.finish(run, status)
        log.info("%s after %d rounds; records in %s", status, run.t, self._folder.path)

    def _show(self, run: Run, record: Record) -> None:
        """The last round for the monitoring system, and how often each fault has happened since this server's start."""
        self._page.set(
            {"round": run.t, "rounds": run.config.rounds, "round_seconds": record.seconds, "loss": record.loss}
        )
        self._page.set(record.metrics | record.costs)
        self._page.count("missing_total", record.missing)
        for name, value in record.extras.items():
            if name.startswith("wire_bits"):
                self._page.set({name: value})
            else:
                self._page.count(f"{name}_total", value)

    def _charge_to_the_run(self, run: Run) -> None:
        before = self._before.totals()
        for total, now in run.start_up.totals().items():
            setattr(run.ledger, total, getattr(run.ledger, total) + now - before[total])
        run.start_up = self._before


def _line(run: Run, record: Record) -> str:
    """A round in one line of the log."""
    numbers = {"loss": record.loss} | record.metrics
    measured = [f"{name} {value:.4g}" for name, value in numbers.items() if value is not None]
    counts = {"missing": record.missing, "rejected": record.rejected} | record.extras
    troubles = [f"{counts[event]} {event}" for event in ("missing", *EVENTS) if counts[event]]
    head = "start-up" if record.round == START_UP else f"round {run.t}/{run.config.rounds}"
    return "  ".join([head, *measured, *troubles, f"{record.seconds:.1f} s"])
