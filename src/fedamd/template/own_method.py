"""FedAvg whose clients' updates are clipped to a length before they are averaged."""

from dataclasses import dataclass
from typing import Any

from fedamd.algorithms.base import Algorithm, Batches, Dialogue, Exchange, Reply, State, Turn, role


@role("worker")
def walk(task: Any, batches: Any, grad: Any) -> Reply:
    """A client: some steps of SGD from the server's model; what it has moved, shortened to the length `clip`."""
    y = task.x
    for batch in batches:
        y = y - task.eta_l * grad(y, batch)
    delta = task.x - y
    length = delta.norm(dim=-1, keepdim=True)
    return Reply(delta=delta * (task.clip / length.clamp(min=1e-12)).clamp(max=1))


@dataclass(frozen=True, kw_only=True)
class Clipped(Algorithm):
    """The server: sends its model, and moves it by the mean of what comes back."""

    eta_l: float = 0.1
    clip: float = 1.0
    steps: int = 5
    batch: int = 16

    def round(self, state: State, turn: Turn) -> Dialogue:
        replies = yield Exchange(
            walk.to(turn.cohort, Batches(self.steps, self.batch), x=state.x, eta_l=self.eta_l, clip=self.clip)
        )
        workers = replies["worker"]
        if not len(workers):  # every client of the cohort has failed
            return state
        return state.next(x=state.x - workers.delta.mean(0))
