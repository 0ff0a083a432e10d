"""Many processes: each rank plays some of the clients, and the replies are gathered on all.

What a client keeps lives on the rank that owns it, which plays it whenever that matters; all other work is dealt out
evenly. Every rank runs the same server on the same replies, so no rank is special but for writing files. Nothing but
tensors crosses between processes (what describes them travels as JSON bytes), so nothing is ever unpickled. Start it
with

    torchrun --nproc-per-node N -m fedamd run …

Without torchrun there is one rank that owns every client: a run whose other processes were lost can go on alone.
"""

import atexit
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from fedamd.algorithms.base import Answers, Exchange, Order, Replies
from fedamd.engines.base import Engine, Request, like_x
from fedamd.engines.client_store import MemoryStore
from fedamd.errors import FedamdError
from fedamd.torchrun import ProcessLost, processes

SHORT = 4096  # bytes of JSON that travel at once, the first of which say how long it is
LENGTH = 8
PATIENCE = timedelta(minutes=10)  # how long a rank waits for the others' replies before it takes them for lost


@dataclass(frozen=True)
class Ranks:
    """Which process this is, of how many."""

    rank: int = 0
    world: int = 1

    def owns(self, client: int) -> bool:
        return client % self.world == self.rank

    def share(self, order: Order) -> tuple[int, ...]:
        """The clients of the order that this rank plays."""
        if order.role.memory:
            return tuple(filter(self.owns, order.clients))
        return order.clients[self.rank :: self.world]


def join(device: str) -> Ranks:
    """Join the other processes that torchrun started; alone where it did not."""
    if processes() == 1:
        return Ranks()
    if not dist.is_initialized():
        on_gpus = device == "cuda" and torch.cuda.is_available()
        if on_gpus:
            _take_gpu(int(os.environ["LOCAL_RANK"]))
        try:
            dist.init_process_group("nccl" if on_gpus else "gloo", timeout=PATIENCE)
        except (RuntimeError, ValueError) as error:
            raise ProcessLost(f"the processes of this run did not find each other: {_first_line(error)}") from None
        atexit.register(dist.destroy_process_group)
    return Ranks(dist.get_rank(), dist.get_world_size())


def _take_gpu(local_rank: int) -> None:
    """Each rank of a machine works on a GPU of its own."""
    if local_rank >= torch.cuda.device_count():
        raise FedamdError(
            f"process {local_rank} has no GPU of its own: this machine has {torch.cuda.device_count()}; "
            'start at most as many processes on it, or use device = "cpu"'
        )
    torch.cuda.set_device(local_rank)


@contextmanager
def in_step(ranks: Ranks) -> Iterator[None]:
    """A mistake that one rank finds in this block is every rank's: none is left waiting for the others."""
    own: FedamdError | None = None
    try:
        yield
    except FedamdError as error:
        if ranks.world == 1:
            raise
        own = error
    if ranks.world > 1:
        _told(None, own)


class DistributedEngine(Engine):
    """Executes on this rank, through another engine, this rank's share of every order, and gathers the rest."""

    def __init__(self, inner: Engine, ranks: Ranks) -> None:
        self._inner = inner
        self._ranks = ranks

    def execute(self, requests: Sequence[Request]) -> list[Answers]:
        own = [Request(request.site, request.t, request.stage, self._own(request.exchange)) for request in requests]
        answers: list[Answers] = []
        mistake: FedamdError | None = None
        try:
            answers = self._inner.execute(own)
        except FedamdError as error:
            mistake = error
        described = _told([_describe(answer) for answer in answers], mistake)
        together = enumerate(zip(requests, answers, strict=True))
        return [
            {
                order.role.name: _joined(order, answer[order.role.name], [each[index] for each in described])
                for order in request.exchange.orders
            }
            for index, (request, answer) in together
        ]

    def evaluate(self, xs: Sequence[Tensor]) -> list[tuple[float, float]]:
        """Models are dealt out to the ranks."""
        mine = list(xs[self._ranks.rank :: self._ranks.world])
        every = _gather_json(self._inner.evaluate(mine) if mine else [])
        results: list[tuple[float, float]] = [(0.0, 0.0)] * len(xs)
        for rank, evaluations in enumerate(every):
            results[rank :: self._ranks.world] = [(loss, accuracy) for loss, accuracy in evaluations]
        return results

    def _own(self, exchange: Exchange) -> Exchange:
        """The exchange with this rank's clients alone."""
        return Exchange(*(replace(order, clients=self._ranks.share(order)) for order in exchange.orders))


class ShardedStore(MemoryStore):
    """What this rank's clients hold; a checkpoint has what all ranks' clients hold, and fits any number of ranks."""

    def __init__(self, ranks: Ranks, device: str, on_host: bool = False) -> None:
        super().__init__(on_host)
        self._ranks = ranks
        self._device = device

    def tensors(self) -> dict[str, Tensor]:
        local = {name: stack.to(self._device) for name, stack in super().tensors().items()}
        described = _gather_json({name: [*stack.shape, _name(stack.dtype)] for name, stack in local.items()})
        counts = [each["clients"][0] for each in described]
        if not sum(counts):
            return local
        layouts = {name: layout for each in described for name, layout in each.items()}
        for name, (_, *width, dtype) in layouts.items():  # a rank may have no client that holds this
            local.setdefault(name, torch.zeros(0, *width, dtype=getattr(torch, dtype), device=self._device))
        return {name: _gather_rows(local[name], counts) for name in layouts}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        own = torch.tensor([self._ranks.owns(client) for client in tensors["clients"].tolist()], dtype=torch.bool)
        super().restore({name: stack[own.to(stack.device)] for name, stack in tensors.items()})


def agreed(pressed: bool) -> bool:
    """Whether any rank has been interrupted: all must stop after the same round."""
    return any(_gather_json(pressed))


def _describe(answer: Answers) -> dict[str, Any]:
    """What the other ranks must know of this rank's replies to take them in."""
    return {
        name: {
            "clients": replies.clients,
            "rejected": replies.rejected,
            "widths": {value: stack.shape[-1] for value, stack in replies.values.items()},
            "bits": replies.bits,
            "losses": replies.losses is not None,
        }
        for name, replies in answer.items()
    }


def _joined(order: Order, local: Replies, described: Sequence[dict[str, Any]]) -> Replies:
    """The replies of all ranks to one order, in the order of its clients."""
    parts = [each[order.role.name] for each in described]
    rejected = sorted(client for part in parts for client in part["rejected"])
    counts = [len(part["clients"]) for part in parts]
    first = next((part for part in parts if part["widths"]), None)
    if first is None:
        return Replies((), {}, rejected=rejected)
    widths = dict(first["widths"], **({"": 1} if first["losses"] else {}))  # the losses travel as one more column
    x = like_x(order)
    columns = [*local.values.values(), *([] if local.losses is None else [local.losses.to(x).unsqueeze(-1)])]
    block = torch.cat(columns, -1) if len(local) else x.new_zeros(0, sum(widths.values()))
    rows = _gather_rows(block, counts) if sum(counts) else block
    clients = [client for part in parts for client in part["clients"]]
    place = {client: row for row, client in enumerate(order.clients)}
    sequence = sorted(range(len(clients)), key=lambda row: place[clients[row]])
    sorted_rows = torch.tensor(sequence, dtype=torch.int64, device=rows.device)
    columns = [part[sorted_rows].contiguous() for part in torch.split(rows, list(widths.values()), -1)]
    values = dict(zip(widths, columns, strict=True))
    losses = values.pop("", None)
    return Replies(
        [clients[row] for row in sequence],
        values,
        None if losses is None else losses.squeeze(-1),
        first["bits"],
        rejected,
    )


def _gather_rows(block: Tensor, counts: Sequence[int]) -> Tensor:
    """Every rank's rows, first rank's first, given how many each has.

    A collective wants equal shapes, so rows are padded on the way.
    """
    most = max(counts)
    padded = block.contiguous()
    if len(block) < most:
        padded = torch.cat([block, block.new_zeros(most - len(block), *block.shape[1:])])
    received = block.new_empty(len(counts) * most, *block.shape[1:])
    _collective(dist.all_gather, list(torch.split(received, most)), padded)
    if min(counts) == most:
        return received
    return torch.cat([rows[:count] for rows, count in zip(torch.split(received, most), counts, strict=True)])


def _told(value: Any, mistake: FedamdError | None) -> list[Any]:
    """Every rank's value; a mistake that one has found is every rank's."""
    every = _gather_json([None if mistake is None else str(mistake), value])
    for found, _ in every:
        if found is not None:
            raise FedamdError(found) from mistake
    return [value for _, value in every]


def _gather_json(value: Any) -> list[Any]:
    """Every rank's value: in one collective where all are short, else their ends in a second one."""
    device = torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
    text = json.dumps(value).encode()
    begun = len(text).to_bytes(LENGTH) + text[: SHORT - LENGTH]
    first = _gather_bytes(begun, SHORT, device)
    lengths = [int.from_bytes(each[:LENGTH]) for each in first]
    longest = max(lengths) + LENGTH - SHORT
    rest = _gather_bytes(text[SHORT - LENGTH :], longest, device) if longest > 0 else [b""] * len(first)
    return [json.loads((a[LENGTH:] + b)[:length]) for a, b, length in zip(first, rest, lengths, strict=True)]


def _gather_bytes(text: bytes, width: int, device: torch.device) -> list[bytes]:
    """Every rank's text, filled up to that width."""
    own = torch.frombuffer(bytearray(text.ljust(width)), dtype=torch.uint8).to(device)
    rows = _gather_rows(own.unsqueeze(0), [1] * dist.get_world_size())
    return [bytes(row) for row in rows.cpu().numpy()]


def _collective(operation: Any, *arguments: Any) -> None:
    try:
        operation(*arguments)
    except RuntimeError as error:
        raise ProcessLost(
            "another process of this run was lost: the run ends here, and goes on from its last checkpoint with "
            f"--resume, on any number of processes ({_first_line(error)})"
        ) from None


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200]
