"""From orders to stacks: which clients are played as one, and what each of them is sent, holds and draws.

Stacks whose batches are of the same size are drawn together: where clients take different numbers of steps, they form
many stacks of few rows, and on a GPU it is the number of operations that takes time.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import islice

import torch
from torch import Tensor

from fedamd import draw
from fedamd.algorithms.base import Batches, Order, Size
from fedamd.draw import Purpose
from fedamd.engines.base import (
    Request,
    address,
    batch_keys,
    batch_positions,
    batch_weights,
    joined,
    like_x,
    sample_keys,
)
from fedamd.engines.pieces import WIDEST, widened
from fedamd.engines.stack import Stack
from fedamd.transfer import upload

Group = Sequence[tuple[int, Order]]  # orders of one stack, each with the index of its request


def merged(requests: Sequence[Request], apart: bool) -> list[Group]:
    """Orders that can be played as one stack, each with the index of its request; `apart`, of one run on a CPU."""
    found: dict[Hashable, list[tuple[int, Order]]] = defaultdict(list)
    for index, request in enumerate(requests):
        for order in request.exchange.orders:
            if order.clients:
                own = index if apart and not like_x(order).is_cuda else None
                found[own, order.role, order.batches, tuple(order.payload)].append((index, order))
    return list(found.values())


def stacked(
    requests: Sequence[Request], groups: Sequence[Group], keyed: bool = False, piece: int | None = None
) -> list[Stack]:
    """Every group as one stack: first request's clients first.

    `keyed`: with the address of each sample's own draws.
    With `piece`, wide batches are to be taken in pieces of that width, and others are as wide as they were asked for:
    few widths ever occur, whoever is in the stack.
    """
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for number, group in enumerate(groups):
        sizes = tuple(asked.size for asked in group[0][1].batches)
        alike[number if piece is None or "full" in sizes else sizes].append(number)
    stacks: dict[int, Stack] = {}
    for numbers in alike.values():
        together = _Drawing(requests, [groups[number] for number in numbers], keyed, piece)
        stacks |= zip(numbers, together.stacks(), strict=True)
    return [stacks[number] for number in range(len(groups))]


class _Drawing:
    """Groups whose batches are of the same sizes, if of different numbers: what all their clients draw at once."""

    def __init__(self, requests: Sequence[Request], groups: Sequence[Group], keyed: bool, piece: int | None) -> None:
        self._groups = [[(requests[index], order) for index, order in group] for group in groups]
        self._keyed = keyed
        self._piece = piece
        self._orders = [entry for group in self._groups for entry in group]
        self._x = like_x(self._orders[0][1])
        self._rows = [sum(len(order.clients) for _, order in group) for group in groups]
        self._clients = upload([client for _, order in self._orders for client in order.clients], self._x.device)
        self._owned = [
            request.site.clients.sizes[client] for request, order in self._orders for client in order.clients
        ]

    def stacks(self) -> list[Stack]:
        """One of each group."""
        held = [fresh for request, order in self._orders for fresh in request.site.store.fresh(order.clients)]
        fresh = torch.split(upload(held, self._x.device, self._x.dtype).unsqueeze(-1), self._rows)
        noise = torch.split(draw.keys(self._words(Purpose.NOISE), self._clients), self._rows)
        stacks = [
            Stack(_sent(group, self._x), _memory(group, self._x), fresh[number], noise[number], [], [], [], [], [])
            for number, group in enumerate(self._groups)
        ]
        for index, asked in enumerate(self._orders[0][1].batches):
            self._draw(index, asked.size, stacks)
        return stacks

    def _draw(self, index: int, size: Size, stacks: Sequence[Stack]) -> None:
        """Give every stack its batches of one request."""
        counts = [group[0][1].batches[index].count for group in self._groups]
        each = [count for rows, count in zip(self._rows, counts, strict=True) for _ in range(rows)]
        owned = [own for own, count in zip(self._owned, each, strict=True) for _ in range(count)]
        position, real = batch_positions(self._keys(Purpose.BATCH, index, counts), owned, size)
        piece = None if size != "full" and size <= WIDEST else self._piece
        if self._piece is not None:
            width = size if piece is None else -(-position.shape[-1] // piece) * piece
            position, real = widened(position, int(width)), widened(real, int(width))
        columns = [self._samples(index, position), batch_weights(real, self._x.dtype)]
        if self._keyed:
            columns.append(sample_keys(self._keys(Purpose.SAMPLE, index, counts), position))
        batches = [len(stack) * count for stack, count in zip(stacks, counts, strict=True)]
        of_groups = [torch.split(column, batches) for column in columns]
        lengths = iter([Batches(1, size).samples(own) for own in self._owned])
        for stack, count, *own in zip(stacks, counts, *of_groups, strict=True):
            for kept, drawn in zip((stack.samples, stack.weights, stack.keys), own, strict=False):
                kept.extend(_one_by_one(drawn.reshape(len(stack), count, -1)))
            stack.lengths.extend([tuple(islice(lengths, len(stack)))] * count)
            stack.pieces.extend([piece] * count)

    def _words(self, purpose: Purpose, *rest: int) -> Tensor:
        """The beginning of every client's addresses."""
        beginnings = [(address(request, purpose, *rest), len(order.clients)) for request, order in self._orders]
        return draw.words([word for word, clients in beginnings for _ in range(clients)], self._x.device)

    def _keys(self, purpose: Purpose, index: int, counts: Sequence[int]) -> Tensor:
        """The address of every batch, client by client."""
        words, clients = (torch.split(rows, self._rows) for rows in (self._words(purpose, index), self._clients))
        return joined([batch_keys(*own) for own in zip(words, clients, counts, strict=True)])

    def _samples(self, index: int, position: Tensor) -> Tensor:
        """Sample numbers of positions in each client's own data; every run has its own partition."""
        rows = [len(order.clients) for _, order in self._orders]
        batches = [len(order.clients) * order.batches[index].count for _, order in self._orders]
        parts = zip(self._orders, torch.split(self._clients, rows), torch.split(position, batches), strict=True)
        return joined(
            [
                request.site.clients.gather(who, where.reshape(len(who), -1)).view_as(where)
                for (request, _), who, where in parts
            ]
        )


def _sent(group: Sequence[tuple[Request, Order]], x: Tensor) -> dict[str, Tensor]:
    """To each client: vectors (n, d) and numbers (n, 1)."""
    orders = [order for _, order in group]
    run = [index for index, order in enumerate(orders) for _ in order.clients]

    def sent(name: str) -> Tensor:
        values = [order.payload[name] for order in orders]
        if isinstance(values[0], Tensor):
            vectors = torch.stack([value for value in values if isinstance(value, Tensor)])
            return vectors.expand(len(run), -1) if len(vectors) == 1 else vectors[upload(run, x.device)]
        numbers = [value for value in values if not isinstance(value, Tensor)]
        return upload([numbers[index] for index in run], x.device, x.dtype).unsqueeze(-1)

    return {name: sent(name) for name in orders[0].payload}


def _memory(group: Sequence[tuple[Request, Order]], x: Tensor) -> dict[str, Tensor]:
    """What clients hold, by name, (n, d) each."""
    return {
        name: torch.cat([request.site.store.read(name, order.clients, x) for request, order in group])
        for name in group[0][1].role.memory
    }


def _one_by_one(batches: Tensor) -> list[Tensor]:
    """Of (n, count, size) every (n, size), its rows one after the other in memory: nobody need copy them again."""
    return list(batches.transpose(0, 1).contiguous().unbind(0))
