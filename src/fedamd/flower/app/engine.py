"""Exchanges over a Flower Grid: every order becomes a message to each of its clients, every reply a row of the answer.

An exchange closes when all have replied, when the share `close_at` has, or at the deadline with what has come. A client
that let a deadline pass is silent until it is heard of again: it is asked once in a deadline's time, so that no work
piles up for the day it comes back, and nobody waits for it.
Below the quorum (`min_replies`) those that are missing are asked again, up to `attempts` times in all; then the run
stops, and goes on from its last checkpoint when it is started again. In the start-up pass whoever is connected is asked
so often. Replies are checked against a rehearsal of their role; whatever is not exactly that is dropped.

What is counted, round by round:
absent     asked, but not connected                     failed    the client raised an error, or its process died
overdue    no reply by the deadline                     late      a reply to an exchange that was closed, dropped
skipped    not waited for: silent, or beyond `close_at`
rejected   not finite, wrong shape, wrong instruction, too large, unreadable
lost       the client no longer has the version of its vectors that the server builds on
refused    nodes that claimed to be a client they are not
retries    attempts beyond the first of an exchange     renewed   times all clients computed anew what they hold
wire_bits_up, wire_bits_down    message contents, in bits
"""

import itertools
import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from flwr.app import Message
from torch import Tensor

from fedamd.algorithms.base import Algorithm, Answers, Order, Replies
from fedamd.engines.base import Engine, Request, like_x
from fedamd.errors import FedamdError, at_work, round_named
from fedamd.flower.app.acknowledged import Acknowledged
from fedamd.flower.app.attendance import Attendance
from fedamd.flower.app.mailbox import Mailbox
from fedamd.flower.app.memory import LostVersion
from fedamd.flower.app.rehearsal import Rehearsals
from fedamd.flower.app.roles import role_name
from fedamd.flower.app.roster import Roster
from fedamd.flower.app.rounding import Rounding, length_of
from fedamd.flower.app.settings import FederationSettings
from fedamd.flower.app.wire import Answer, BadMessage, Form, Header, read_answer, size, write_instruction, write_payload
from fedamd.runs.rounds import START_UP

log = logging.getLogger("fedamd.flower")

EVENTS = ("absent", "failed", "overdue", "skipped", "late", "rejected", "lost", "refused", "retries", "renewed")
_OVERLAP = 2.0  # a message lives so many deadlines: long enough to see that a reply came late


@dataclass(frozen=True)
class Parcel:
    """One client's part of an order, on its way."""

    order: Order
    client: int
    node: int
    number: int
    form: Form


Accepted = dict[tuple[str, int], Answer]  # by role name and client


class FlowerEngine(Engine):
    """Executes exchanges on the clients of a federation."""

    def __init__(
        self,
        mailbox: Mailbox,
        roster: Roster,
        acknowledged: Acknowledged,
        algorithm: Algorithm,
        settings: FederationSettings,
        run: str,
        epoch: int,
        evaluator: Engine | None,
    ) -> None:
        """`epoch` counts the starts of the server on this run: it makes the numbers of instructions grow for ever."""
        self._mailbox = mailbox
        self._roster = roster
        self._acknowledged = acknowledged
        self._algorithm = algorithm
        self._settings = settings
        self._run = run
        self._rounding = Rounding(settings.wire_dtype)
        self._rehearsals = Rehearsals()
        self._numbers = itertools.count(epoch << 32)
        self._evaluator = evaluator
        self._overdue: dict[str, int] = {}  # message → node
        self._asked_at: dict[int, float] = {}  # node → when
        self._failure = ""  # the last that was noted
        self.renewing = False  # whether this start-up pass is not the run's first
        self.lost: set[int] = set()  # clients that have lost what they held
        self.attendance = Attendance()
        self.events: Counter[str] = Counter()
        self.wire = {"wire_bits_up": 0, "wire_bits_down": 0}

    def execute(self, requests: Sequence[Request]) -> list[Answers]:
        return [self._exchange(request) for request in requests]

    def evaluate(self, xs: Sequence[Tensor]) -> list[tuple[float, float]]:
        """On the server's own test samples, where it has any."""
        return self._evaluator.evaluate(xs) if self._evaluator else [(float("nan"), float("nan"))] * len(xs)

    def vector_bits(self, vector: Tensor) -> int:
        return self._rounding.vector_bits(vector)

    def who_is_there(self) -> Attendance:
        """What is known of every client now."""
        self.attendance.settle(self._roster.present(), self._roster.silent)
        return self.attendance

    def extras(self, t: int) -> Mapping[str, float]:
        """What happened to the round's messages, and the bits on the wire so far; the start-up's are in no total.
        A start-up pass in the middle of a run is counted with the round that follows."""
        if self.renewing:
            return {}
        counted = {event: self.events[event] for event in EVENTS} | self.wire
        self.events.clear()
        if t < 0:
            self.wire = dict.fromkeys(self.wire, 0)
        return counted

    def _exchange(self, request: Request) -> Answers:
        orders = request.exchange.orders
        with at_work(f"the rehearsal of {round_named(request.t)}, stage {request.stage}"):
            rehearsals = {order.role.name: self._rehearsed(order) for order in orders if order.clients}
        asked = [(order, client) for order in orders for client in order.clients]
        quorum = min(self._settings.min_replies, len(asked))
        enough = self._connected(asked) if request.t == START_UP else quorum
        accepted: Accepted = {}
        for attempt in range(self._settings.attempts):
            if attempt:
                self.events["retries"] += 1
                self._mailbox.sleep(self._settings.retry_after)
            open_ones = [(order, client) for order, client in asked if (order.role.name, client) not in accepted]
            self._attempt(request, open_ones, {name: form for name, (form, _) in rehearsals.items()}, accepted)
            if len(accepted) >= enough:
                break
        if len(accepted) >= quorum:
            return {order.role.name: _stacked(order, accepted, rehearsals) for order in orders}
        raise FedamdError(
            f"round {request.t}: {len(accepted)} of {len(asked)} clients replied in {self._settings.attempts} "
            f"attempts, fewer than min_replies = {self._settings.min_replies}; the run stops here and goes on from its "
            "last checkpoint when it is started again" + (f"; last failure: {self._failure}" if self._failure else "")
        )

    def _attempt(
        self, request: Request, asked: list[tuple[Order, int]], forms: dict[str, Form], accepted: Accepted
    ) -> None:
        """Ask these clients, and wait for them until the deadline."""
        self._roster.refresh()
        self.events["refused"] += self._roster.refused
        self._roster.refused = 0
        self._count_late()
        on_their_way = self._send_all(request, asked, forms)

        waited_for = {parcel.node for parcel in on_their_way.values()} - self._roster.silent
        wanted = math.ceil(self._settings.close_at * sum(len(order.clients) for order in request.exchange.orders))

        def closes() -> bool:
            for number, reply in self._mailbox.fetch(list(on_their_way)).items():
                self._receive(on_their_way.pop(number), reply, accepted)
            left = {parcel.node for parcel in on_their_way.values()}
            only_silent_ones = bool(waited_for) and not left & waited_for
            return not left or len(accepted) >= wanted or only_silent_ones

        in_time = self._mailbox.wait(self._settings.deadline, closes)
        if on_their_way:
            self._close_without(list(on_their_way.values()), request.t, in_time)
            self._overdue |= {number: parcel.node for number, parcel in on_their_way.items()}

    def _close_without(self, parcels: list[Parcel], t: int, in_time: bool) -> None:
        """No reply of these; if all their time is over, they are silent."""
        event = "skipped" if in_time else "overdue"
        self.events[event] += len(parcels)
        self.attendance.fault(event, [parcel.client for parcel in parcels])
        if not in_time:
            self._roster.silent |= {parcel.node for parcel in parcels}
        clients = ", ".join(str(parcel.client) for parcel in parcels)
        log.warning("round %d closes without a reply of clients %s", t, clients)

    def _connected(self, asked: list[tuple[Order, int]]) -> int:
        present = self._roster.present()
        return sum(client in present for _, client in asked)

    def _send_all(self, request: Request, asked: list[tuple[Order, int]], forms: dict[str, Form]) -> dict[str, Parcel]:
        present = self._roster.present()
        absent = [client for _, client in asked if client not in present]
        self.events["absent"] += len(absent)
        self.attendance.fault("absent", absent)
        resting = self._resting({present[client] for _, client in asked if client in present})
        self.events["skipped"] += sum(present.get(client) in resting for _, client in asked)
        payloads = {order.role.name: self._payload(order) for order in request.exchange.orders}
        parcels = [
            Parcel(order, client, present[client], next(self._numbers), forms[order.role.name])
            for order, client in asked
            if client in present and present[client] not in resting
        ]
        self._asked_at |= {parcel.node: self._mailbox.now() for parcel in parcels}
        contents = [write_instruction(self._header(request, one), payloads[one.order.role.name]) for one in parcels]
        for parcel, content in zip(parcels, contents, strict=True):
            self.wire["wire_bits_down"] += 8 * (sent := size(content))
            self.attendance.sent(parcel.client, sent)
        letters = [(parcel.node, content) for parcel, content in zip(parcels, contents, strict=True)]
        ids = self._mailbox.send(letters, "train", _OVERLAP * self._settings.deadline, f"{request.t}")
        self.events["absent"] += ids.count("")
        return {number: parcel for number, parcel in zip(ids, parcels, strict=True) if number}

    def _resting(self, nodes: set[int]) -> set[int]:
        """Those of these nodes that are not asked now: silent, and asked not long ago. If all are silent, nobody."""
        silent = nodes & self._roster.silent
        if silent == nodes:
            return set()
        since = self._mailbox.now() - self._settings.deadline
        return {node for node in silent if self._asked_at.get(node, since) > since}

    def _payload(self, order: Order) -> dict[str, Any]:
        return write_payload(self._rounding.narrow(order.payload, length_of(order)), order.batches)

    def _rehearsed(self, order: Order) -> tuple[Form, dict[str, int]]:
        """What a valid reply looks like, and the bits of its values where they are not those of their type."""
        self._rounding.check(order)
        form, bits = self._rehearsals.of(order)
        length = length_of(order)
        return self._rounding.form(form, length), self._rounding.bits(form, length) | bits

    def _header(self, request: Request, parcel: Parcel) -> Header:
        return Header(
            run=self._run,
            role=role_name(parcel.order.role, self._algorithm),
            client=parcel.client,
            seed=request.site.seed,
            t=request.t,
            stage=request.stage,
            number=parcel.number,
            accepted=self._acknowledged.accepted(parcel.client),
            durable=self._acknowledged.durable(parcel.client),
            deadline=float(self._settings.deadline),  # clients take no whole number for it
        )

    def _receive(self, parcel: Parcel, reply: Message | None, accepted: Accepted) -> None:
        """Take a good reply in; count any other."""
        self._roster.silent.discard(parcel.node)
        self.attendance.heard(parcel.client)
        if reply is not None and reply.has_error():
            self._note("failed", parcel, str(reply.error.reason))
            return
        try:
            answer = self._opened(parcel, reply)
        except BadMessage as error:
            self._note("rejected", parcel, str(error))
            return
        if answer.refusal:
            self._refused(parcel, answer.refusal)
            return
        if parcel.order.role.memory:
            self._acknowledged.accept(parcel.client, parcel.number)
        self.attendance.answered(parcel.client)
        accepted[parcel.order.role.name, parcel.client] = answer

    def _refused(self, parcel: Parcel, why: str) -> None:
        if why.startswith(LostVersion.__name__):
            self.lost.add(parcel.client)
            self._note("lost", parcel, why)
        else:
            self._note("failed", parcel, why)

    def _opened(self, parcel: Parcel, reply: Message | None) -> Answer:
        """The answer in a reply; a `BadMessage` if it is anything else."""
        if reply is None or not reply.has_content():
            raise BadMessage("it cannot be decoded")
        self.wire["wire_bits_up"] += 8 * (came := size(reply.content))
        self.attendance.heard(parcel.client, came)
        if reply.metadata.src_node_id != parcel.node:
            raise BadMessage(f"it comes from node {reply.metadata.src_node_id}")
        return read_answer(reply.content, parcel.number, parcel.form)

    def _note(self, event: str, parcel: Parcel, why: str) -> None:
        self.events[event] += 1
        self.attendance.fault(event, [parcel.client])
        self._failure = f"client {parcel.client} as {parcel.order.role.name}: {event} ({why})"
        log.warning("%s", self._failure)

    def _count_late(self) -> None:
        """Replies to exchanges that are closed: too late to count, worth knowing."""
        for number, reply in self._mailbox.fetch(list(self._overdue)).items():
            node = self._overdue.pop(number)
            self.events["late"] += reply is None or reply.has_content()
            if reply is None or reply.metadata.src_node_id == node:  # not the SuperLink, which answers for the dead
                self._roster.silent.discard(node)


def _stacked(order: Order, accepted: Accepted, rehearsals: dict[str, tuple[Form, dict[str, int]]]) -> Replies:
    """The answers of one role, in the order of its clients, on the device of what was sent."""
    name = order.role.name
    answers = [(client, accepted[name, client]) for client in order.clients if (name, client) in accepted]
    if not answers:
        return Replies((), {})
    form, bits = rehearsals[name]
    x = like_x(order)
    values = {
        value: torch.stack([answer.values[value].to(x.device, x.dtype) for _, answer in answers])
        for value in form.values
    }
    losses = x.new_tensor([answer.loss for _, answer in answers]) if form.has_loss else None
    return Replies([client for client, _ in answers], values, losses, bits)
