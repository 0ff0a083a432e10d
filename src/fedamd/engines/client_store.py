"""What clients hold between rounds: vectors that never leave a client, kept here because a simulation is all clients.

One protocol for every store: in memory (below: a slot for every client that has held something), on disk
(`disk_store`), shared among processes (`distributed`), or far away with real clients (`flower`).
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from fedamd.transfer import upload

LARGE = 1 << 20  # numbers of a vector, from which on a stack of them that is doubled would take much of a device


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
    """In memory: on the device of what is written or, `on_host`, in the host's, for what would soon fill a GPU."""

    def __init__(self, on_host: bool = False) -> None:
        self._on_host = on_host
        self._slots: dict[int, int] = {}
        self._kept: dict[str, _Together | _Apart] = {}

    def read(self, name: str, clients: Sequence[int], like: Tensor) -> Tensor:
        if name not in self._kept:
            return like.new_zeros(len(clients), like.numel())
        return self._kept[name].read([self._slots.get(client) for client in clients], like)

    def fresh(self, clients: Sequence[int]) -> list[bool]:
        return [client not in self._slots for client in clients]

    def write(self, clients: Sequence[int], values: dict[str, Tensor]) -> None:
        for client in clients:
            self._slots.setdefault(client, len(self._slots))
        slots = [self._slots[client] for client in clients]
        for name, stack in values.items():
            self._keeping(name, stack).write(slots, stack)

    def _keeping(self, name: str, like: Tensor) -> "_Together | _Apart":
        if name not in self._kept:
            apart = self._on_host or like.shape[-1] >= LARGE
            self._kept[name] = _Apart(like, self._on_host) if apart else _Together(like)
        return self._kept[name]

    def commit(self, t: int) -> None:
        """Nothing to do: the checkpoint holds it all."""

    def rewind(self, t: int | None) -> None:  # noqa: ARG002  `restore` brings what was held
        self._slots.clear()
        self._kept.clear()

    def tensors(self) -> dict[str, Tensor]:
        clients = torch.tensor(list(self._slots), dtype=torch.int64)
        return {"clients": clients} | {name: kept.whole(len(clients)) for name, kept in self._kept.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        self.rewind(None)
        values = {name: stack for name, stack in tensors.items() if name != "clients"}
        self.write(tensors["clients"].tolist(), values)


class _Together:
    """Vectors by slot in one stack, on the device of the first."""

    def __init__(self, like: Tensor) -> None:
        self._stack = like.new_zeros(0, like.shape[-1])

    def read(self, slots: Sequence[int | None], like: Tensor) -> Tensor:  # noqa: ARG002
        stack = self._stack
        places = [len(stack) if slot is None else slot for slot in slots]
        known = [place < len(stack) for place in places]  # a client may hold other vectors, but none of this name yet
        values = stack.index_select(0, upload([place if place < len(stack) else 0 for place in places], stack.device))
        return values if all(known) else values * upload(known, stack.device).unsqueeze(-1)

    def write(self, slots: Sequence[int], values: Tensor) -> None:
        self._make_room(max(slots, default=-1) + 1)
        self._stack.index_copy_(0, upload(slots, values.device, torch.int64), values)

    def _make_room(self, rows: int) -> None:
        """Doubled whenever it is too short, so that growing is cheap on the whole."""
        stack = self._stack
        if len(stack) < rows:
            self._stack = torch.cat([stack, stack.new_zeros(max(rows - len(stack), len(stack)), stack.shape[-1])])

    def whole(self, rows: int) -> Tensor:
        """As a stack of so many."""
        self._make_room(rows)
        return self._stack[:rows]


class _Apart:
    """Vectors by slot, each by itself, so that no more room is taken than they need: where they are or on the host."""

    def __init__(self, like: Tensor, on_host: bool) -> None:
        self._on_host = on_host
        self._like = like.new_zeros(1, device="cpu").expand(like.shape[-1])
        self._vectors: dict[int, Tensor] = {}

    def read(self, slots: Sequence[int | None], like: Tensor) -> Tensor:
        stack = like.new_zeros(len(slots), like.numel())
        for row, slot in zip(stack, slots, strict=True):
            if slot is not None and slot in self._vectors:
                row.copy_(self._vectors[slot])
        return stack

    def write(self, slots: Sequence[int], values: Tensor) -> None:
        for slot, row in zip(slots, values, strict=True):
            if slot not in self._vectors:
                self._vectors[slot] = self._room(row)
            self._vectors[slot].copy_(row)

    def _room(self, row: Tensor) -> Tensor:
        if not self._on_host:
            return torch.empty_like(row)
        # what a GPU is to read and write fast must not be moved about by the system
        return torch.empty_like(row, device="cpu", pin_memory=row.is_cuda)

    def whole(self, rows: int) -> Tensor:
        """As a stack of so many, on the host."""
        return self.read(range(rows), self._like)
