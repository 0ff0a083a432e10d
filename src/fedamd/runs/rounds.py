"""The round loop: several runs in lockstep over one engine. A single run is a lockstep of one."""

import math
from collections.abc import Callable, Sequence
from time import perf_counter

import torch

from fedamd.algorithms.base import Answers, Dialogue, Exchange, State, Turn
from fedamd.engines.base import Engine, Request
from fedamd.errors import at_work, round_named
from fedamd.runs.ledger import Ledger
from fedamd.runs.run import Listener, Run

HOPELESS = 3  # times in a row that a role has to drop every reply it got: this will not get better
START_UP = -1  # the round number of the start-up pass


def drive(
    runs: Sequence[Run],
    engine: Engine,
    listen: Listener,
    interrupted: Callable[[], bool] = lambda: False,
) -> None:
    """Advance every run to its last round, to divergence, or to the interruption."""
    _start([run for run in runs if not run.started], engine, listen)
    while (live := [run for run in runs if run.live]) and not interrupted():
        t = min(run.t for run in live)
        _round([run for run in live if run.t == t], engine, listen)


def _start(runs: Sequence[Run], engine: Engine, listen: Listener) -> None:
    """The start-up pass; its costs stand on a line of their own and in no total."""
    for run in runs:
        run.begin_round()
    dialogues = [run.experiment.algorithm.start(run.state.x, run.experiment.federation) for run in runs]
    _converse(runs, dialogues, START_UP, engine, [run.start_up for run in runs])
    for run in runs:
        run.started = True
    _close(runs, START_UP, engine, listen, [run.start_up for run in runs])


def _round(runs: Sequence[Run], engine: Engine, listen: Listener) -> None:
    t = runs[0].t
    for run in runs:
        run.begin_round()
    turns = [_turn(run, t) for run in runs]
    dialogues = [run.experiment.method_of(t).round(run.state, turn) for run, turn in zip(runs, turns, strict=True)]
    _converse(runs, dialogues, t, engine, [run.ledger for run in runs])
    for run in runs:
        run.t = t + 1
    _close(runs, t, engine, listen, [run.ledger for run in runs])


def _converse(
    runs: Sequence[Run], dialogues: Sequence[Dialogue], t: int, engine: Engine, ledgers: Sequence[Ledger]
) -> None:
    """Carry exchanges and replies to and fro until every dialogue has returned its run's next state."""
    answers: dict[int, Answers | None] = dict.fromkeys(range(len(runs)))
    stage = 0
    while answers:
        asked: dict[int, Exchange] = {}
        for index, answer in answers.items():
            with at_work(f"the server's side of {_method(runs[index])} in {round_named(t)}, before stage {stage}"):
                reply = _reply(dialogues[index], answer)
            if isinstance(reply, State):
                runs[index].state = reply
            else:
                asked[index] = reply
        requests = [Request(runs[i].site, t, stage, _surviving(runs[i], exchange, t)) for i, exchange in asked.items()]
        answers = dict(zip(asked, engine.execute(requests), strict=True)) if requests else {}
        for index, answer in answers.items():
            sizes = runs[index].site.clients.sizes
            ledgers[index].add(asked[index], answer, sizes, engine.vector_bits)  # type: ignore[arg-type]
            if (time := runs[index].experiment.simulated_time) is not None:
                ledgers[index].add_seconds(time.length(asked[index]))
            runs[index].tally.add(asked[index], answer)  # type: ignore[arg-type]
        stage += 1


def _turn(run: Run, t: int) -> Turn:
    federation = run.experiment.federation
    with at_work(f"the sampler {type(federation.sampler).__name__} in {round_named(t)}"):
        return Turn(t, run.config.seed, federation)


def _method(run: Run) -> str:
    return type(run.experiment.algorithm).__name__


def _reply(dialogue: Dialogue, answer: Answers | None) -> Exchange | State:
    """The dialogue's next exchange, or the state it returns."""
    try:
        return next(dialogue) if answer is None else dialogue.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _surviving(run: Run, exchange: Exchange, t: int) -> Exchange:
    return Exchange(*(run.surviving(order, t) for order in exchange.orders))


def _close(runs: Sequence[Run], t: int, engine: Engine, listen: Listener, ledgers: Sequence[Ledger]) -> None:
    """Evaluate, look for divergence, record. One transfer from the device serves all runs."""
    if not runs:
        return
    due = [run for run in runs if t == START_UP or run.t % run.config.evaluate_every == 0 or run.t == run.config.rounds]
    numbers = torch.stack([torch.stack([run.tally.loss(run.state.x), run.state.x.sum()]) for run in runs])
    with at_work(f"the evaluation after {round_named(t)}"):
        models = [run.experiment.algorithm.evaluated(run.state) for run in due]
        evaluations = dict(zip(map(id, due), engine.evaluate(models), strict=True)) if due else {}
        measured = [run.measure(t, evaluations.get(id(run))) for run in runs]
    seconds = (perf_counter() - runs[0].clock) / len(runs)  # the lockstep's time is counted once
    extras = engine.extras(t)
    for run, (loss, total), ledger, found in zip(runs, numbers.tolist(), ledgers, measured, strict=True):
        run.count_bad_rounds()
        if not math.isfinite(total) or max(run.all_bad_rounds.values(), default=0) >= HOPELESS:
            run.status = "diverged"
        elif run.t >= run.config.rounds:
            run.status = "finished"
        record = run.record(t, loss, found, ledger, extras, seconds)
        run.records.append(record)
        listen(run, record)
