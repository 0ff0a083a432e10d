"""A session tells its sinks what becomes of every run, in order, and holds on to what they hold."""

from contextlib import contextmanager

import pytest

from fedamd.algorithms import FedAvg
from fedamd.runs.run import Run
from fedamd.runs.session import Session, Sink, as_sinks
from support import PAIR, experiment, reference_engine


class Diary(Sink):
    def __init__(self):
        self.entries = []
        self.names = {}

    def note(self, run, *words):
        self.entries.append((self.names.setdefault(id(run), len(self.names)), *words))

    @contextmanager
    def hold(self, run):
        self.note(run, "hold")
        try:
            yield
        finally:
            self.note(run, "let go")

    def begin(self, run):
        self.note(run, "begin")

    def recorded(self, run, record):
        self.note(run, record.round)

    def checkpointed(self, run):
        self.note(run, "checkpoint")

    def end(self, run, status):
        self.note(run, status)


def runs(*rounds):
    return [Run(experiment(FedAvg(eta_l=0.1, steps=1), PAIR, rounds=count)) for count in rounds]


def test_sinks_are_told_everything_in_order():
    """checkpoint_every is 10: due at the start (t = 0), and at the end of each run. A run's end is told at once."""
    diary = Diary()
    both = runs(1, 2)
    Session(both, reference_engine(both[0].experiment), [diary]).run()
    begun = [(0, "hold"), (1, "hold"), (0, "begin"), (1, "begin")]
    start = [(0, -1), (0, "checkpoint"), (1, -1), (1, "checkpoint")]
    played = [(0, 0), (0, "checkpoint"), (0, "finished"), (1, 0), (1, 1), (1, "checkpoint"), (1, "finished")]
    assert diary.entries == [*begun, *start, *played, (1, "let go"), (0, "let go")]


def test_an_interruption_is_the_end_of_what_still_runs():
    diary = Diary()
    both = runs(1, 5)
    Session(both, reference_engine(both[0].experiment), [diary], interrupted=lambda: both[1].t >= 2).run()
    assert [entry for entry in diary.entries if entry[1] in ("finished", "interrupted")] == [
        (0, "finished"),
        (1, "interrupted"),
    ]
    assert both[1].t == 2


def test_a_session_can_advance_in_pieces():
    (one,) = runs(5)
    session = Session([one], reference_engine(one.experiment))
    with session.opened():
        session.advance(until=lambda: one.t >= 2)
        assert one.t == 2
        session.advance()
    assert one.status == "finished"


def test_a_crash_is_no_end_but_lets_go():
    diary = Diary()
    (one,) = runs(5)

    def crash(run, _):
        if run.t == 2:
            raise RuntimeError("pulled the plug")

    with pytest.raises(RuntimeError, match="plug"):
        Session([one], reference_engine(one.experiment), [diary, *as_sinks(crash, None)]).run()
    assert diary.entries[-2:] == [(0, 1), (0, "let go")]
