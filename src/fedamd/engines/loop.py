"""The reference engine: one client after the other, in plain sight. Every other engine is tested against it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fedamd import draw
from fedamd.algorithms.base import Answers, Order, Replies, Reply, Task, Values
from fedamd.draw import Purpose
from fedamd.engines.base import (
    Engine,
    RecordingGradient,
    Request,
    accepted,
    address,
    batch_keys,
    batch_positions,
    batch_weights,
    finite_rows,
    like_x,
    sample_keys,
)
from fedamd.errors import at_work, round_named
from fedamd.oracles.base import Batch, Oracle


class LoopEngine(Engine):
    """Runs every client's role function by itself."""

    def __init__(self, oracle: Oracle, micro_batch: int | None = None) -> None:
        self._oracle = oracle
        self._micro_batch = micro_batch

    def execute(self, requests: Sequence[Request]) -> list[Answers]:
        return [
            {order.role.name: self._play(request, order) for order in request.exchange.orders} for request in requests
        ]

    def evaluate(self, xs: Sequence[Tensor]) -> list[tuple[float, float]]:
        results = [self._oracle.evaluate(x) for x in xs]
        return [(loss.item(), accuracy.item()) for loss, accuracy in results]

    def _play(self, request: Request, order: Order) -> Replies:
        """All clients of one role, their replies stacked."""
        played = [play(request, order, client, self._oracle, self._micro_batch) for client in order.clients]
        return collect(request, order, order.clients, played)


def play(
    request: Request, order: Order, client: int, oracle: Oracle, micro_batch: int | None
) -> tuple[Reply, Tensor | None]:
    """One client's reply, and its mean loss."""
    x = like_x(order)
    grad = RecordingGradient(oracle, micro_batch)
    batches = batches_for(request, order, client, x, oracle.keyed)
    task = task_for(request, order, client, x)
    with at_work(f"client {client} as {order.role.name} in {round_named(request.t)}, stage {request.stage}"):
        reply = order.role.run(task, batches, grad)
        return reply, grad.mean_loss()


def task_for(request: Request, order: Order, client: int, like: Tensor) -> Task:
    """What the client was sent, what it holds, and its own random numbers."""
    store = request.site.store

    def uniforms(count: int) -> Tensor:
        word = draw.words([address(request, Purpose.NOISE)], like.device)
        return draw.uniforms(draw.keys(word, torch.tensor(client, device=like.device)), count, like.dtype)[0]

    return Task(
        **order.payload,
        memory=Values(**{name: store.read(name, [client], like)[0] for name in order.role.memory}),
        fresh=like.new_tensor([float(fresh) for fresh in store.fresh([client])]),
        uniforms=uniforms,
    )


def batches_for(request: Request, order: Order, client: int, like: Tensor, keyed: bool = False) -> list[Batch]:
    """The client's batches, in the order they were asked for; `keyed`, with the address of each sample's own draws."""
    clients = request.site.clients
    number = torch.tensor([client], device=like.device)
    drawn: list[Batch] = []
    for index, asked in enumerate(order.batches):
        word = draw.words([address(request, Purpose.BATCH, index)], like.device)
        owned = [clients.sizes[client]] * asked.count
        position, real = batch_positions(batch_keys(word, number, asked.count), owned, asked.size)
        parts = [clients.gather(number.expand(asked.count), position), batch_weights(real, like.dtype)]
        if keyed:
            word = draw.words([address(request, Purpose.SAMPLE, index)], like.device)
            parts.append(sample_keys(batch_keys(word, number, asked.count), position))
        drawn += [Batch(*part) for part in zip(*parts, strict=True)]
    return drawn


def collect(
    request: Request, order: Order, clients: Sequence[int], played: Sequence[tuple[Reply, Tensor | None]]
) -> Replies:
    """Stack what came back; a value that is neither a model-sized vector nor one number is rejected."""
    if not clients:
        return Replies((), {})
    d = like_x(order).shape
    fits = [all(value.shape in (d, (1,)) for value in (reply.values | reply.memory).values()) for reply, _ in played]
    good = [result for result, fit in zip(played, fits, strict=True) if fit]
    misfits = [client for client, fit in zip(clients, fits, strict=True) if not fit]
    if not good:
        return Replies((), {}, rejected=misfits)
    replies, losses = [reply for reply, _ in good], [loss for _, loss in good if loss is not None]
    values = {name: torch.stack([reply.values[name] for reply in replies]) for name in replies[0].values}
    memory = {name: torch.stack([reply.memory[name] for reply in replies]) for name in replies[0].memory}
    answer = accepted(
        request.site,
        [client for client, fit in zip(clients, fits, strict=True) if fit],
        values,
        memory,
        torch.stack(losses) if losses else None,
        replies[0].bits,
        finite_rows([*values.values(), *memory.values()]).tolist(),
    )
    return Replies(answer.clients, answer.values, answer.losses, answer.bits, (*misfits, *answer.rejected))
