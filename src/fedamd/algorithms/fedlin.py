"""FedLin: local steps corrected by the gradients at the round's first point.

Aritra Mitra et al., "Linear convergence in federated learning: tackling client heterogeneity and sparse gradients",
NeurIPS 2021, Algorithm 1 without sparsification. Theirs is for all clients; here the cohort takes their place.

first    every client: g_i = ∇f_i(x_t; b samples), which it keeps;  server: g = mean of the g_i
then     every client: y_0 = x_t; for k = 0 … K−1: y_{k+1} = y_k − η_l·(∇f_i(y_k; B_k) − g_i + g);  Δ = x_t − y_K
server   x_{t+1} = x_t − η_s·mean of the Δ
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fedamd.algorithms import checks
from fedamd.algorithms.base import Batches, Dialogue, Exchange, Gradient, Reply, Size, State, Task, Turn, role
from fedamd.algorithms.local import LocalSteps
from fedamd.algorithms.parameters import param
from fedamd.oracles.base import Batch


@role("surveyor", reports_loss=False, memory=("x", "g"))
def survey_and_keep(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """The gradient at x_t; the client keeps it, and x_t, for the second half of the round."""
    (large,) = batches
    g = grad(task.x, large)
    return Reply(g=g, memory={"x": task.x, "g": g})


@role("worker", memory=("x", "g"))
def walk_corrected(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """K steps from x_t whose first one, on the same samples, is along the server's g."""
    x = y = task.memory.x
    for batch in batches:
        y = y - task.eta_l * (grad(y, batch) - task.memory.g + task.g)
    return Reply(delta=x - y)


@dataclass(frozen=True, kw_only=True)
class FedLin(LocalSteps):
    """FedLin's hyper-parameters."""

    large_batch: Size = param("full", "b, the batch of the gradients at x_t")

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.batch_size(self, "large_batch")

    def round(self, state: State, turn: Turn) -> Dialogue:
        """Gradients first, then local steps corrected by their mean."""
        replies = yield Exchange(survey_and_keep.to(turn.cohort, Batches(1, self.large_batch), x=state.x))
        surveyors = replies["surveyor"]
        if not len(surveyors):
            return state
        replies = yield Exchange(
            walk_corrected.to(surveyors.clients, self.local_batches, g=surveyors.g.mean(0), eta_l=self.eta_l)
        )
        workers = replies["worker"]
        if not len(workers):
            return state
        return state.next(**self.descend(state, workers.delta.mean(0)))
