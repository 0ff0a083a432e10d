"""Many processes: clients live on ranks, each rank plays its own, and the replies are gathered on all.

Every rank runs the same server on the same replies, so no rank is special but for writing files. Nothing but tensors
crosses between processes (what describes them travels as JSON bytes), so nothing is ever unpickled. Start it with

    torchrun --nproc-per-node N -m fedamd run …
"""

import atexit
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from fedamd.algorithms.base import Answers, Exchange, Order, Replies
from fedamd.engines.base import Engine, Request, like_x
from fedamd.engines.held import MemoryHeld
from fedamd.errors import FedamdError


@dataclass(frozen=True)
class Ranks:
    """Which process this is, of how many."""

    rank: int = 0
    world: int = 1

    def owns(self, client: int) -> bool:
        return client % self.world == self.rank


def join(device: str) -> Ranks:
    """Join the other processes that torchrun started; alone where it did not."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Ranks()
    if not dist.is_initialized():
        if device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
        atexit.register(dist.destroy_process_group)
    return Ranks(dist.get_rank(), dist.get_world_size())


def is_writer() -> bool:
    """Whether this process writes the files and speaks to people: one of them does."""
    return os.environ.get("RANK", "0") == "0"


class DistributedEngine:
    """Executes on this rank, through another engine, what this rank's clients are asked, and gathers the rest."""

    def __init__(self, inner: Engine, ranks: Ranks) -> None:
        self._inner = inner
        self._ranks = ranks

    def execute(self, requests: Sequence[Request]) -> list[Answers]:
        own = [Request(request.site, request.t, request.stage, self._own(request.exchange)) for request in requests]
        answers = self._inner.execute(own)
        described = _gather_json([_describe(answer) for answer in answers])
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
        return Exchange(
            *(
                Order(order.role, tuple(filter(self._ranks.owns, order.clients)), order.batches, order.payload)
                for order in exchange.orders
            )
        )


class ShardedHeld(MemoryHeld):
    """What this rank's clients hold; a checkpoint has what all ranks' clients hold, and fits any number of ranks."""

    def __init__(self, ranks: Ranks) -> None:
        super().__init__()
        self._ranks = ranks

    def tensors(self) -> dict[str, Tensor]:
        local = super().tensors()
        own = torch.tensor([self._ranks.owns(client) for client in local["clients"].tolist()], dtype=torch.bool)
        local = {name: stack[own.to(stack.device)] for name, stack in local.items()}
        described = _gather_json({name: [len(stack), *stack.shape[1:]] for name, stack in local.items()})
        names = sorted({name for each in described for name in each}, key=lambda name: (name != "clients", name))
        counts = [each["clients"][0] for each in described]
        if not sum(counts):
            return local
        gathered = {}
        for name in names:
            width = next(each[name][1:] for each in described if name in each)
            stack = local.get(name, torch.zeros(0, *width))
            gathered[name] = torch.cat(_gather_rows(stack, counts))
        return gathered


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
    if not sum(counts):
        return Replies((), {}, rejected=rejected)
    first = next(part for part in parts if part["clients"])
    widths = dict(first["widths"], **({"": 1} if first["losses"] else {}))  # the losses travel as one more column
    x = like_x(order)
    columns = [*local.values.values(), *([] if local.losses is None else [local.losses.to(x).unsqueeze(-1)])]
    block = torch.cat(columns, -1) if len(local) else x.new_zeros(0, sum(widths.values()))
    rows = torch.cat(_gather_rows(block, counts))
    clients = [client for part in parts for client in part["clients"]]
    sequence = sorted(range(len(clients)), key=lambda row: order.clients.index(clients[row]))
    rows = rows[torch.tensor(sequence, device=rows.device)]
    values = dict(zip(widths, torch.split(rows, list(widths.values()), -1), strict=True))
    losses = values.pop("", None)
    return Replies(
        [clients[row] for row in sequence],
        {name: stack.contiguous() for name, stack in values.items()},
        None if losses is None else losses.squeeze(-1),
        first["bits"],
        rejected,
    )


def _gather_rows(block: Tensor, counts: Sequence[int]) -> list[Tensor]:
    """Every rank's rows, given how many each has; a collective wants equal shapes, so rows are padded on the way."""
    most = max(counts)
    padded = torch.cat([block, block.new_zeros(most - len(block), *block.shape[1:])]).contiguous()
    received = [torch.empty_like(padded) for _ in counts]
    _collective(dist.all_gather, received, padded)
    return [rows[:count] for rows, count in zip(received, counts, strict=True)]


def _gather_json(value: Any) -> list[Any]:
    """Every rank's value."""
    device = torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
    text = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8).to(device)
    lengths = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(dist.get_world_size())]
    _collective(dist.all_gather, lengths, torch.tensor([len(text)], device=device))
    rows = _gather_rows(text, [int(length) for length in lengths])
    return [json.loads(bytes(row.cpu().numpy())) for row in rows]


def _collective(operation: Any, *arguments: Any) -> None:
    try:
        operation(*arguments)
    except RuntimeError as error:
        raise FedamdError(
            "another process of this run was lost: the run ends here, and goes on from its last checkpoint with "
            f"--resume, on any number of processes ({str(error).strip().splitlines()[0][:200]})"
        ) from None
