"""What clients hold between rounds: vectors that never leave a client, kept here because a simulation is all clients.

One protocol for every store: in memory (below: a slot for every client that has held something, on the engine's
device), on disk (`disk_store`), shared among processes (`distributed`), or far away with real clients (`flower`).
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from fedamd.transfer import upload


class ClientStore(Protocol):
    """Vectors by client and name, that can go back to where a checkpoint found them.

    A checkpoint at t is `commit(t)`, then `tensors()` on disk. Going back to it is `rewind(t)`, then `restore(…)`.
    """

    def read(self, name: str, clients: Sequence[int], like: Tensor) -> Tensor:
        """The (n, d) stack of these clients' vectors, zeros where a client holds none; `like` is a vector (d,)."""
        ...

    def fresh(self, clients: Sequence[int]) -> list[bool]:
        """Which of these clients hold nothing yet."""
        ...

    def write(self, clients: Sequence[int], values: dict[str, Tensor]) -> None:
        """Replace these clients' vectors of these names by the rows of each stack."""
        ...

    def commit(self, t: int) -> None:
        """What is held now is what is held at t; on disk when this returns, in so far as `tensors` does not give it."""
        ...

    def rewind(self, t: int | None) -> None:
        """Hold what was held at t, or nothing (None); a store that cannot is left as it is, with a `FedamdError`."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint has to hold for this store."""
        ...

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Back to what `tensors` gave."""
        ...


class MemoryStore:
    """In memory, on the device of what is written."""

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}
        self._stacks: dict[str, Tensor] = {}

    def read(self, name: str, clients: Sequence[int], like: Tensor) -> Tensor:
        if name not in self._stacks:
            return like.new_zeros(len(clients), like.numel())
        stack = self._stacks[name]
        slots = [self._slots.get(client, len(stack)) for client in clients]
        known = [slot < len(stack) for slot in slots]  # a client may hold other vectors, but none of this name yet
        rows = upload([slot if slot < len(stack) else 0 for slot in slots], stack.device)
        values = stack.index_select(0, rows)
        if not all(known):
            values = values * upload(known, stack.device).unsqueeze(-1)
        return values

    def fresh(self, clients: Sequence[int]) -> list[bool]:
        return [client not in self._slots for client in clients]

    def write(self, clients: Sequence[int], values: dict[str, Tensor]) -> None:
        for client in clients:
            self._slots.setdefault(client, len(self._slots))
        slots = [self._slots[client] for client in clients]
        for name, stack in values.items():
            self._room_for(name, stack).index_copy_(0, upload(slots, stack.device), stack)

    def _room_for(self, name: str, like: Tensor) -> Tensor:
        """The stack of this name, doubled whenever it is too short, so that growing is cheap on the whole."""
        needed = len(self._slots)
        stack = self._stacks.get(name)
        if stack is None:
            stack = like.new_zeros(needed, like.shape[-1])
        elif len(stack) < needed:
            stack = torch.cat([stack, stack.new_zeros(max(needed - len(stack), len(stack)), stack.shape[-1])])
        self._stacks[name] = stack
        return stack

    def commit(self, t: int) -> None:
        """Nothing to do: the checkpoint holds it all."""

    def rewind(self, t: int | None) -> None:  # noqa: ARG002  `restore` brings what was held
        self._slots.clear()
        self._stacks.clear()

    def tensors(self) -> dict[str, Tensor]:
        clients = torch.tensor(list(self._slots), dtype=torch.int64)
        stacks = {name: self._room_for(name, stack)[: len(clients)] for name, stack in self._stacks.items()}
        return {"clients": clients} | stacks

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        self._slots = {client: slot for slot, client in enumerate(tensors["clients"].tolist())}
        self._stacks = {name: stack for name, stack in tensors.items() if name != "clients"}
