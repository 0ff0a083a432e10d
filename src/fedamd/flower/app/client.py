"""The client: one generic app that plays any role of any algorithm on the data of its own machine.

A SuperNode is started with `--node-config "partition-id=3 state-dir='/var/lib/fedamd' watchdog=true"`:
partition-id   which client of the federation this is (0 … M−1)
state-dir      where it keeps what it holds between rounds (default: ~/.local/state/fedamd)
device         cpu (default) or cuda
watchdog       end the process when a role outlives the server's deadline (a client that stays always does, and its node
               is free for the next message at once; Flower's own SuperNode notices after a minute)
"""

import contextlib
import faulthandler
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

from fedamd.algorithms.base import Algorithm, Exchange, Order, Replies, Role
from fedamd.data.virtual import EqualSizes
from fedamd.engines import Engine, make_engine
from fedamd.engines.base import Request, Site
from fedamd.engines.client_store import MemoryStore
from fedamd.errors import FedamdError
from fedamd.flower.app.memory import LostVersion, Memory, StaleInstruction
from fedamd.flower.app.rehearsal import shortened
from fedamd.flower.app.roles import find_role
from fedamd.flower.app.rounding import Rounding
from fedamd.flower.app.settings import read_settings
from fedamd.flower.app.task import CLIENTS_ENGINE, load_task
from fedamd.flower.app.wire import Answer, Instruction, read_instruction, write_answer

app = ClientApp()


@app.query()
def hello(message: Message, context: Context) -> Message:
    """Which client this node is, and how many samples it has."""
    participant = _participant(context)
    facts: dict[str, Any] = {"client": participant.client, "samples": participant.samples}
    return Message(RecordDict({"hello": ConfigRecord(facts)}), reply_to=message)


@app.train()
def work(message: Message, context: Context) -> Message:
    """Play the role the instruction names."""
    participant = _participant(context)
    instruction = read_instruction(message.content, participant.device)
    left = _time_left(message.metadata.created_at, instruction.header.deadline)
    with _watchdog(left if context.node_config.get("watchdog") else None):
        answer = participant.work(instruction, _state_folder(context))
    return Message(write_answer(answer), reply_to=message)


class OwnData:
    """The federation's data as one client sees it: its own samples, numbered from 0."""

    def __init__(self, samples: int, clients: int) -> None:
        self.sizes = EqualSizes(samples, clients)

    def __len__(self) -> int:
        return len(self.sizes)

    def samples(self, client: int) -> Tensor:
        return torch.arange(self.sizes[client])

    def gather(self, clients: Tensor, positions: Tensor) -> Tensor:  # noqa: ARG002
        return positions

    def to(self, device: torch.device | str) -> "OwnData":  # noqa: ARG002
        return self


class Participant:
    """One client of one run: its data, its model, and what it can be asked to do."""

    def __init__(self, run_config: dict[str, Any], client: int, device: str) -> None:
        config, settings = read_settings(run_config)
        if not 0 <= client < config.clients:
            raise FedamdError(f"partition-id is {client}, but the run has clients 0 … {config.clients - 1}")
        task = load_task(config, settings)
        data = task.client_dataset(config, client, device)
        model = task.build_model(config, device)
        self.client = client
        self.device = device
        self.samples = len(data.inputs)
        self._dtype: torch.dtype = getattr(torch, config.dtype)
        self._rounding = Rounding(settings.wire_dtype)
        self._clients = OwnData(self.samples, config.clients)
        self._algorithm: Algorithm = config.build_algorithm()
        self._engine: Engine = make_engine(
            CLIENTS_ENGINE, config.oracle, model, data, config.micro_batch, config.precision
        )

    def work(self, instruction: Instruction, folder: Path) -> Answer:
        """The reply, after what this client holds from now on has been written to its disk."""
        header = instruction.header
        if header.client != self.client:
            raise FedamdError(f"this is client {self.client}, and the instruction is for client {header.client}")
        role = find_role(header.role, self._algorithm)
        if not role.memory:
            return self._answer(instruction, self._play(instruction, role, MemoryStore()))
        memory = Memory(folder, self.client, header.run)
        held = MemoryStore()
        try:
            memory.refuse_stale(header.number)
            if before := memory.read(header.accepted):
                held.write([self.client], {name: vector.to(self.device)[None] for name, vector in before.items()})
            replies = self._play(instruction, role, held)
            after = {name: stack[0] for name, stack in held.tensors().items() if name != "clients"}
            memory.write(header.number, after, header.accepted, header.durable)
        except (LostVersion, StaleInstruction) as refusal:
            return Answer(header.number, {}, refusal=f"{type(refusal).__name__}: {refusal}")
        return self._answer(instruction, replies)

    def _play(self, instruction: Instruction, role: Role, held: MemoryStore) -> Replies:
        """The very thing a simulation does, with one client."""
        header = instruction.header
        site = Site(header.seed, self._clients, held)
        payload = self._rounding.widen(instruction.payload, self._dtype)
        order = Order(role, (self.client,), instruction.batches, payload)
        self._rounding.check(order)
        (answers,) = self._engine.execute([Request(site, header.t, header.stage, Exchange(order))])
        if answers[role.name].rejected:
            raise FedamdError(f"the reply of client {self.client} is not finite: has the training diverged?")
        return answers[role.name]

    def _answer(self, instruction: Instruction, replies: Replies) -> Answer:
        loss = None if replies.losses is None else replies.losses[0].item()
        values = {name: stack[0] for name, stack in replies.values.items()}
        compressed = shortened(replies.bits, values).keys()
        length = max(value.numel() for value in instruction.payload.values() if isinstance(value, Tensor))
        sent = self._rounding.narrow(values, length, compressed)
        return Answer(instruction.header.number, sent, loss, compressed=compressed)


def _participant(context: Context) -> Participant:
    if "partition-id" not in context.node_config:
        raise FedamdError(
            'this SuperNode does not know which client it is: start it with --node-config "partition-id=…"'
        )
    client, device = int(context.node_config["partition-id"]), str(context.node_config.get("device", "cpu"))
    return _made(tuple(sorted(context.run_config.items())), client, device)


@lru_cache(maxsize=16)
def _made(run_config: tuple[tuple[str, Any], ...], client: int, device: str) -> Participant:
    return Participant(dict(run_config), client, device)


def _state_folder(context: Context) -> Path:
    return Path(str(context.node_config.get("state-dir", Path.home() / ".local" / "state" / "fedamd")))


def _time_left(sent: float, deadline: float) -> float:
    """Seconds until the server stops waiting: counted from when it wrote the instruction, not from when it came."""
    left = min(sent + deadline - time.time(), deadline)
    if left <= 0:
        raise FedamdError(
            f"the instruction came {-left:.0f} s after its deadline: is the clock of this machine right, "
            "was its data still being loaded, or is federation.deadline too short?"
        )
    return left


@contextlib.contextmanager
def _watchdog(seconds: float | None) -> Iterator[None]:
    """End the process, with a traceback in its log, if the block takes longer; works even while C code is running."""
    if seconds is None:
        yield
        return
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
