"""Every fault a client can have: the round closes without it, exactly as if it had never been asked, and is counted.

What is right is computed without Flower: `simulate(raw, drop)` leaves the faulty client's reply out.
"""

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from flower_support import Answer, Fault, Federation, config, same, simulate
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict

from fedamd.errors import FedamdError
from fedamd.flower.app import wire

Make = Callable[..., Federation]
CACHES = pytest.mark.parametrize("cache", ["server", "client"])
ROUND, CLIENT = 1, 2  # the fault: client 2 takes part in round 1 of config()


def raw_config(cache: str) -> dict[str, Any]:
    return config({"name": "fedamd", "p": 0.5, "steps": 2, "small_batch": 16, "cache": cache})


def check(one: Federation, fault: Fault, event: str) -> None:
    """One fault: counted once under its name, the client missing, everything else as without it."""
    one.grid.faults[ROUND, CLIENT] = fault
    run = one.lead()
    assert (ROUND, CLIENT) not in one.grid.faults, "the faulty client was never asked"
    assert same(run, simulate(one.raw, {(ROUND, CLIENT)}))
    counts = {t: record.extras | {"rejected": record.rejected} for t, record in one.metrics().items()}
    assert counts[ROUND][event] == 1
    assert one.metrics()[ROUND].missing == 1
    others = [count[event] for t, count in counts.items() if t != ROUND]
    assert not any(others)


BESIDE = False  # whether the vectors of `changed` travel as large ones do


def changed(message: Message, reply: Message | None, values: dict[str, Array], **facts: Any) -> Message:
    """The client's honest reply with other arrays or other facts in it."""
    assert reply is not None
    record = {key: value for key, value in reply.content["reply"].items() if not key.startswith("vector.")}
    content = RecordDict()
    if BESIDE:
        content["vectors"] = ArrayRecord(values)
    else:
        for k, a in values.items():
            record |= {f"vector.{k}.type": a.dtype, f"vector.{k}.shape": list(a.shape), f"vector.{k}.data": a.data}
    content["reply"] = ConfigRecord(record | facts)
    return Message(content, reply_to=message)


def arrays(reply: Message | None) -> dict[str, Array]:
    assert reply is not None
    return wire._unpacked(reply.content["reply"], None)


# --- silence ---


@CACHES
def test_a_client_that_raises(federation: Make, cache: str) -> None:
    def raises(message: Message, _: Answer) -> Message:
        return Message(Error(2, "ZeroDivisionError"), reply_to=message)

    check(federation(raw_config(cache)), raises, "failed")


@CACHES
def test_a_client_that_never_answers_costs_the_deadline_and_no_more(federation: Make, cache: str) -> None:
    one = federation(raw_config(cache), deadline=100)
    check(one, lambda *_: None, "overdue")
    assert one.clock.time == pytest.approx(100)


@CACHES
def test_a_client_whose_reply_is_lost_after_it_did_its_work(federation: Make, cache: str) -> None:
    def lost(_: Message, answer: Answer) -> None:
        answer()

    check(federation(raw_config(cache)), lost, "overdue")


@CACHES
def test_a_late_reply_is_counted_where_it_is_found_and_dropped(federation: Make, cache: str) -> None:
    """Client 2 works on its instruction of round 1 during round 2; the server finds its reply in round 3."""
    one = federation(raw_config(cache))
    slow: list[tuple[Message, Answer]] = []

    def begins(message: Message, answer: Answer) -> None:
        slow.append((message, answer))

    def finishes(_: Message, answer: Answer) -> Message | None:
        for message, work in slow:
            one.grid.deliver(message, work())
        slow.clear()
        return answer()

    one.grid.faults = {(2, client): finishes for client in (0, 1, 3)}
    check(one, begins, "overdue")
    assert {t: record.extras["late"] for t, record in one.metrics().items()} == {-1: 0, 0: 0, 1: 0, 2: 0, 3: 1}


def silent_from(one: Federation, first: int) -> None:
    one.grid.faults = {(t, CLIENT): lambda *_: None for t in range(first, 20)}


def test_a_client_that_stays_silent_costs_one_deadline_not_one_a_round(federation: Make) -> None:
    raw = raw_config("client") | {"rounds": 12, "cohort": 4}
    one = federation(raw, deadline=100)
    silent_from(one, 1)
    run = one.lead()
    assert same(run, simulate(raw, {(t, CLIENT) for t in range(1, 12)}))
    assert one.clock.time == pytest.approx(100, abs=1)
    assert [one.metrics()[t].extras["overdue"] for t in range(12)] == [0, 1, *[0] * 10]
    assert [one.metrics()[t].extras["skipped"] for t in range(12)] == [0, 0, *[1] * 10]


def test_no_work_piles_up_for_a_silent_client(federation: Make) -> None:
    """Eleven rounds in an instant, after the one in which it let the deadline pass: it is asked once more, not eleven
    times; what it answers at last brings it back."""
    raw = raw_config("client") | {"rounds": 13, "cohort": 4}
    one = federation(raw, deadline=100)
    silent: list[tuple[Message, Answer]] = []

    def later(message: Message, answer: Answer) -> None:
        silent.append((message, answer))

    def wakes(_: Message, answer: Answer) -> Message | None:
        for message, work in silent:
            one.grid.deliver(message, work())
        silent.clear()
        return answer()

    one.grid.faults = {(t, CLIENT): later for t in range(1, 10)} | {(9, 0): wakes}
    one.lead()
    asked = [m.content["header"]["t"] for m in one.grid.instructions if m.content["header"]["client"] == CLIENT]
    assert asked == [-1, 0, 1, 2, 10, 11, 12]
    assert [one.metrics()[t].missing for t in range(13)] == [0, *[1] * 9, 0, 0, 0]


def test_a_silent_client_that_answers_again_is_waited_for_again(federation: Make) -> None:
    """Silent in round 1, in time (before the others are through) in round 2, slow again in round 3."""
    raw = raw_config("client") | {"cohort": 4}
    one = federation(raw, deadline=100)
    one.grid.faults = {(1, CLIENT): lambda *_: None, (3, CLIENT): lambda *_: None}
    one.lead()
    assert [one.metrics()[t].extras["overdue"] for t in range(4)] == [0, 1, 0, 1]
    assert one.clock.time == pytest.approx(200, abs=1)


def test_where_everybody_is_silent_they_are_waited_for(federation: Make) -> None:
    raw = raw_config("server") | {"cohort": 4}
    one = federation(raw, deadline=100, attempts=2)
    one.grid.faults = {(1, client): lambda *_: None for client in range(4)}
    assert same(one.lead(), simulate(raw)), "asked again, they answer"
    assert one.metrics()[1].extras["overdue"] == 4


def test_an_exchange_closes_at_the_share_it_is_told_to(federation: Make) -> None:
    """Three of four have replied: 0.75; the fourth is not waited for, and its reply, when it comes, is late."""
    raw = raw_config("client") | {"cohort": 4}
    one = federation(raw, deadline=100, close_at=0.75)
    one.grid.faults[ROUND, CLIENT] = lambda *_: None
    assert same(one.lead(), simulate(raw, {(ROUND, CLIENT)}))
    assert one.metrics()[ROUND].extras["skipped"] == one.metrics()[ROUND].missing == 1
    assert one.clock.time < 1


def test_at_the_start_up_whoever_is_connected_is_asked_until_it_answers(federation: Make) -> None:
    """A start-up without most clients would leave their caching gradients out for long."""
    raw = raw_config("client")
    one = federation(raw, min_replies=1, attempts=3)
    one.grid.faults = {(-1, client): lambda *_: None for client in (1, 2, 3)}
    assert same(one.lead(), simulate(raw))
    assert one.metrics()[-1].extras["overdue"] == 3
    assert one.metrics()[-1].missing == 0


# --- garbage ---


def not_a_number(message: Message, answer: Answer) -> Message:
    reply = answer()
    first, array = next(iter(arrays(reply).items()))
    poison = torch.full(array.shape, float("nan")).numpy().tobytes()
    return changed(message, reply, arrays(reply) | {first: Array(array.dtype, array.shape, array.stype, poison)})


def wrong_shape(message: Message, answer: Answer) -> Message:
    reply = answer()
    wrong = {k: Array(a.dtype, (*a.shape, 1), a.stype, a.data) for k, a in arrays(reply).items()}
    return changed(message, reply, wrong)


def wrong_type(message: Message, answer: Answer) -> Message:
    reply = answer()
    wrong = {k: Array("float64", a.shape, a.stype, a.data * 2) for k, a in arrays(reply).items()}
    return changed(message, reply, wrong)


def cut_short(message: Message, answer: Answer) -> Message:
    reply = answer()
    wrong = {k: Array(a.dtype, a.shape, a.stype, a.data[:-4]) for k, a in arrays(reply).items()}
    return changed(message, reply, wrong)


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("a reply was unpickled",))


def pickled(message: Message, answer: Answer) -> Message:
    reply = answer()
    wrong = {k: Array("object", a.shape, "numpy.ndarray", pickle.dumps(Bomb())) for k, a in arrays(reply).items()}
    return changed(message, reply, wrong)


def other_names(message: Message, answer: Answer) -> Message:
    reply = answer()
    return changed(message, reply, {f"x{k}": a for k, a in arrays(reply).items()})


def nothing_at_all(message: Message, _: Answer) -> Message:
    return Message(RecordDict(), reply_to=message)


def wrong_round(message: Message, answer: Answer) -> Message:
    reply = answer()
    return changed(message, reply, arrays(reply), number=message.content["header"]["number"] - 1)


def far_too_large(message: Message, answer: Answer) -> Message:
    reply = answer()
    return changed(message, reply, arrays(reply) | {"more": Array("float32", (1 << 18,), "fedamd.raw", bytes(1 << 20))})


GARBAGE = [not_a_number, wrong_shape, wrong_type, cut_short, pickled, other_names, nothing_at_all, wrong_round]


@pytest.mark.parametrize("beside", [False, True], ids=["in the record", "beside it"])
@pytest.mark.parametrize("fault", [*GARBAGE, far_too_large], ids=lambda fault: fault.__name__)
def test_garbage(federation: Make, monkeypatch: pytest.MonkeyPatch, fault: Fault, beside: bool) -> None:
    monkeypatch.setitem(globals(), "BESIDE", beside)
    check(federation(raw_config("client")), fault, "rejected")


def test_a_record_that_only_looks_like_a_vector(federation: Make) -> None:
    def half(message: Message, answer: Answer) -> Message:
        reply = answer()
        return changed(message, reply, arrays(reply), **{f"vector.{name}.shape": "650" for name in arrays(reply)})

    check(federation(raw_config("client")), half, "rejected")


@CACHES
def test_an_old_reply_sent_again(federation: Make, cache: str) -> None:
    one = federation(raw_config(cache))

    def replay(message: Message, answer: Answer) -> Message:
        answer()
        sent = [m for m in one.grid.answers if m.metadata.src_node_id == message.metadata.dst_node_id]
        return Message(sent[-1].content, reply_to=message)  # this client's answer of an earlier round

    check(one, replay, "rejected")


@CACHES
def test_a_reply_in_the_name_of_another_node(federation: Make, cache: str) -> None:
    def forged(_: Message, answer: Answer) -> Message:
        reply = answer()
        assert reply is not None
        reply.metadata.__dict__["_src_node_id"] = 4711
        return reply

    check(federation(raw_config(cache)), forged, "rejected")


def test_a_reply_that_breaks_the_decoder_takes_no_other_with_it(
    federation: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = federation(raw_config("server"))
    broken: set[str] = set()
    pull = one.grid.pull_messages

    def breaks(message: Message, answer: Answer) -> Message | None:
        broken.add(message.metadata.message_id)
        return answer()

    def pull_or_break(ids: list[str]) -> list[Message]:
        if broken & set(ids):
            raise ValueError("Unexpected set of `children`")
        return pull(ids)

    monkeypatch.setattr(one.grid, "pull_messages", pull_or_break)
    check(one, breaks, "rejected")


def test_a_client_that_has_only_garbage_cannot_end_the_run(federation: Make) -> None:
    """In a simulation a role whose every reply is not finite means divergence; here it may be one bad client."""
    raw = config({"name": "fedamd", "tau": 2, "steps": 2, "small_batch": 16}, cohort=1, clients=4)
    one = federation(raw, attempts=2)
    honest = simulate(raw)
    asked = {(t, client) for t in range(4) for client in range(4)}
    one.grid.faults = dict.fromkeys(asked, not_a_number)
    run = one.lead()
    assert run.status == "finished"
    assert same(run, honest), "asked again, the clients answered well"
    assert [record.rejected for t, record in one.metrics().items() if t >= 0] == [1, 1, 1, 1]
    assert [record.extras["retries"] for t, record in one.metrics().items() if t >= 0] == [1, 1, 1, 1]


# --- absence ---


def test_an_absent_client_is_missing_at_once(federation: Make) -> None:
    raw = raw_config("client")
    one = federation(raw, clients=[0, 1, 3])
    run = one.lead()
    assert same(run, simulate(raw, {(t, CLIENT) for t in range(-1, 4)}))
    assert one.clock.time == pytest.approx(10), "the server waited for it when it started, and never again"
    assert one.metrics()[-1].extras["absent"] == 1
    assert one.metrics()[ROUND].extras["absent"] == one.metrics()[ROUND].missing == 1


def test_fewer_clients_than_the_cohort(federation: Make) -> None:
    raw = raw_config("server")
    run = federation(raw, clients=[1, 2], start_clients=1).lead()
    assert same(run, simulate(raw, {(t, client) for t in range(-1, 4) for client in (0, 3)}))


def test_a_client_that_joins_late(federation: Make) -> None:
    """Client 2 is connected after round 0."""
    raw = raw_config("client")
    one = federation(raw, clients=[0, 1, 3], start_wait=0)

    def joins(_: Message, answer: Answer) -> Message | None:
        one.grid.nodes |= one.nodes([CLIENT])
        return answer()

    one.grid.faults = {(0, client): joins for client in (0, 1, 3)}
    assert same(one.lead(), simulate(raw, {(-1, CLIENT), (0, CLIENT)}))


# --- the quorum ---


def test_below_the_quorum_those_missing_are_asked_again(federation: Make) -> None:
    raw = raw_config("client")
    one = federation(raw, min_replies=3, deadline=100, retry_after=5)
    one.grid.faults[ROUND, CLIENT] = lambda *_: None
    assert same(one.lead(), simulate(raw)), "nothing is missing in the end"
    assert one.metrics()[ROUND].extras["retries"] == one.metrics()[ROUND].extras["overdue"] == 1
    assert one.metrics()[ROUND].missing == 0
    assert one.clock.time == pytest.approx(105)


def test_the_run_stops_with_a_sentence_below_the_quorum_and_goes_on_when_started_again(federation: Make) -> None:
    raw = raw_config("client")
    one = federation(raw, min_replies=3, attempts=1)
    one.grid.faults[ROUND, CLIENT] = lambda *_: None
    with pytest.raises(FedamdError, match="round 1: 2 of 3 clients replied in 1 attempts, fewer than min_replies = 3"):
        one.lead()
    assert same(one.lead(), simulate(raw))


def test_clients_take_the_default_deadline(federation: Make) -> None:
    one = federation(config())
    del one.settings["federation.deadline"]
    assert same(one.lead(), simulate(config()))
