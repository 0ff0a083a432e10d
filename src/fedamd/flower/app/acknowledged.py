"""What the server knows of the vectors its clients hold: not the vectors, only which version of each it has accepted.

It stands where a simulation keeps the vectors themselves, and goes into every checkpoint as two short tensors.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


class Acknowledged:
    """Version numbers by client; 0 where nothing was ever accepted."""

    def __init__(self) -> None:
        self._accepted: dict[int, int] = {}
        self._durable: dict[int, int] = {}

    def accepted(self, client: int) -> int:
        """The version that is in the server's state."""
        return self._accepted.get(client, 0)

    def durable(self, client: int) -> int:
        """The version that is in the server's last checkpoint."""
        return self._durable.get(client, 0)

    def accept(self, client: int, number: int) -> None:
        self._accepted[client] = number

    def saved(self) -> None:
        """A checkpoint with everything accepted so far is on disk."""
        self._durable = dict(self._accepted)

    def forget(self) -> None:
        """Nothing is accepted of anyone any more: clients begin anew. Clients keep what is in the last checkpoint."""
        self._accepted = {}

    def commit(self, t: int) -> None:
        """Nothing to do: the checkpoint holds it all."""

    def rewind(self, t: int | None) -> None:  # noqa: ARG002  `restore` brings what was accepted
        self._accepted.clear()
        self._durable.clear()

    def tensors(self) -> dict[str, Tensor]:
        """Everything, for a checkpoint."""
        return {
            "clients": torch.tensor(list(self._accepted), dtype=torch.int64),
            "accepted": torch.tensor(list(self._accepted.values()), dtype=torch.int64),
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Back to what `tensors` gave, which is on disk."""
        self._accepted = dict(zip(tensors["clients"].tolist(), tensors["accepted"].tolist(), strict=True))
        self.saved()

    # The vectors themselves are out of reach: a remote client's reply carries none, and its tasks are made where it is.

    def read(self, name: str, clients: Sequence[int], like: Tensor) -> Tensor:
        raise NotImplementedError("what a remote client holds stays with it")

    def fresh(self, clients: Sequence[int]) -> list[bool]:
        return [client not in self._accepted for client in clients]

    def write(self, clients: Sequence[int], values: dict[str, Tensor]) -> None:
        raise NotImplementedError("what a remote client holds stays with it")
