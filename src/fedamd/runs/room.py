"""Whether runs fit into memory, found out before they start and said with the size.

What a run holds at least are the data, what the server remembers, what clients hold between rounds, and the replies of
one exchange. Which vectors these are only the method knows. So where it might be too much, the start-up and the first
rounds are rehearsed with a model of three parameters that never changes, and its vectors are counted. What gradients
take beside is not: engines make do with less of it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedamd.algorithms.base import Answers, Dialogue, Exchange, Order, Replies, State, Turn
from fedamd.data.memory import host_memory
from fedamd.engines.base import Site, accepted, like_x
from fedamd.engines.client_store import MemoryStore
from fedamd.engines.stack import Stack, play_stacked
from fedamd.errors import FedamdError
from fedamd.oracles.base import Batch
from fedamd.runs.experiment import Experiment

WIDTH = 3  # parameters of the rehearsed model: a tensor with so many columns stands for model-sized vectors
ROUNDS = 50  # that are rehearsed at most
STEPS = 2  # of each client, however many it is to take: one more needs no more memory


@dataclass(frozen=True)
class Vectors:
    """How many model-sized vectors are held at once."""

    server: int = 0
    clients: int = 0
    replies: int = 0

    @property
    def all(self) -> int:
        return self.server + self.clients + self.replies


def refuse_what_has_no_room(experiments: Sequence[Experiment]) -> None:
    """Refuse runs in lockstep that need more memory than there is, wherever that can be told beforehand."""
    first = experiments[0]
    room = _room(first.x0.device)
    if room is None:
        return
    data, vector = _data_bytes(first), first.x0.numel() * first.x0.element_size()
    if data + vector * sum(map(_generous, experiments)) <= room:
        return
    needed = [_rehearsed(one, lambda vectors: data + vector * vectors.all > room) for one in experiments]
    total = Vectors(
        sum(vectors.server for vectors in needed),
        sum(vectors.clients for vectors in needed),
        max(vectors.replies for vectors in needed),  # where there is no room for those of all, runs take turns
    )
    if data + vector * total.all > room:
        raise FedamdError(_sentence(len(experiments), first.x0.device, data, vector, total, room))


def _generous(experiment: Experiment) -> int:
    """More vectors than nearly any method holds."""
    return 4 * experiment.config.clients + 8 * experiment.config.cohort + 32


def _room(device: torch.device) -> int | None:
    """Bytes that this process can have on the device, where the system says."""
    if device.type != "cuda":
        return host_memory()
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device)


def _data_bytes(experiment: Experiment) -> int:
    data = experiment.dataset
    return sum(tensor.nbytes for tensor in (data.inputs, data.targets, data.test_inputs, data.test_targets))


def _sentence(runs: int, device: torch.device, data: int, vector: int, total: Vectors, room: int) -> str:
    parts = {
        "what the server remembers": vector * total.server,
        "what clients hold": vector * total.clients,
        "the replies of one exchange": vector * total.replies,
        "the data": data,
    }
    remedies = {
        "what clients hold": 'client_store = "disk" (or "host", for a GPU) keeps it elsewhere',
        "the data": "use fewer samples",
    }
    listed = ", ".join(f"{size / 1e9:.1f} GB for {what}" for what, size in parts.items() if size >= 5e7)
    needs = "this run needs" if runs == 1 else f"these {runs} runs in lockstep need"
    remedy = remedies.get(max(parts, key=parts.__getitem__), "fewer clients or a smaller model need less")
    machine = "this machine" if device.type == "cpu" else "the device"
    total_gb, room_gb = sum(parts.values()) / 1e9, room / 1e9
    return f"{needs} at least {total_gb:.1f} GB ({listed}), and {machine} has {room_gb:.1f} GB; {remedy}"


# --- the rehearsal ---


def _rehearsed(experiment: Experiment, enough: Callable[[Vectors], bool]) -> Vectors:
    """The most vectors that were seen at once; what a method of one's own does not play here is left out."""
    config, federation = experiment.config, experiment.federation
    x = torch.zeros(WIDTH, dtype=experiment.x0.dtype)
    site, state, most = Site(config.seed, experiment.clients, MemoryStore()), State(x=x), Vectors()
    places = ("memory",) if experiment.x0.is_cuda else ("memory", "host")
    try:
        for t in range(-1, min(config.rounds, ROUNDS)):
            if t < 0:
                dialogue = experiment.algorithm.start(x, federation)
            else:
                dialogue = experiment.method_of(t).round(state, Turn(t, config.seed, federation))
            state, replies = _carried_on(dialogue, site)
            held = sum(len(stack) for name, stack in site.store.tensors().items() if name != "clients")
            server = _vectors(value for _, value in state.items())
            together = _vectors([*(value for _, value in state.items()), *replies])
            most = max(
                most,
                Vectors(server, held * (config.client_store in places), together - server),
                key=lambda vectors: vectors.all,
            )
            if enough(most):
                break
    except Exception:  # whatever it is, the run itself will tell it better
        return most
    return most


def _carried_on(dialogue: Dialogue, site: Site) -> tuple[State, list[Tensor]]:
    """The state a dialogue ends in, and the replies of its largest exchange."""
    answers: Answers | None = None
    largest: list[Tensor] = []
    while True:
        try:
            exchange = next(dialogue) if answers is None else dialogue.send(answers)
        except StopIteration as end:
            return end.value, largest
        answers = _answered(exchange, site)
        replies = [value for reply in answers.values() for value in reply.values.values()]
        largest = max(largest, replies, key=_vectors)


def _answered(exchange: Exchange, site: Site) -> Answers:
    return {order.role.name: _played(order, site) for order in exchange.orders}


def _played(order: Order, site: Site) -> Replies:
    """The role's own function, for all of its clients at once."""
    count, x = len(order.clients), like_x(order)
    if not count:
        return Replies((), {})
    sent = {
        name: value.expand(count, -1) if isinstance(value, Tensor) else x.new_full((count, 1), value)
        for name, value in order.payload.items()
    }
    memory = {name: site.store.read(name, order.clients, x) for name in order.role.memory}
    fresh = x.new_tensor(site.store.fresh(order.clients)).unsqueeze(-1)
    one = torch.zeros(count, 1, dtype=torch.int64)
    batches = [one] * sum(min(asked.count, STEPS) for asked in order.batches)
    weights, lengths = [one.to(x.dtype)] * len(batches), [(1,) * count] * len(batches)
    stack = Stack(sent, memory, fresh, one[:, 0], batches, weights, [], lengths, [None] * len(batches))
    outcome = play_stacked(order.role, stack, _Flat(), None)
    return accepted(site, order.clients, outcome.values, outcome.memory, outcome.losses, outcome.bits, [True] * count)


class _Flat:
    """Gradients of a function that is 0 everywhere."""

    def gradient(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(x), self.loss(x, batch)

    def difference(self, x: Tensor, previous: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        return self.gradient(x, batch)

    def loss(self, x: Tensor, batch: Batch) -> Tensor:  # noqa: ARG002
        return x.new_zeros(len(x))


def _vectors(tensors: Iterable[Tensor]) -> int:
    """How many model-sized vectors lie in these tensors, those in the same memory counted once."""
    wide = {one.untyped_storage().data_ptr(): one for one in tensors if one.dim() and one.shape[-1] == WIDTH}
    return sum(one.untyped_storage().nbytes() // (one.element_size() * WIDTH) for one in wide.values())
