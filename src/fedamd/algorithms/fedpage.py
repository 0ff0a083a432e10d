"""FedPAGE: a probabilistic choice between full gradients of everyone and recursive steps of a cohort.

Haoyu Zhao, Zhize Li & Peter Richtárik, "FedPAGE: a fast local stochastic gradient method for communication-efficient
federated learning", arXiv:2108.04755.

The server keeps x_t, x_{t−1} and the estimate g_{t−1}.

full round   with probability p, and always until a g is known: g_t = mean of ∇f_i(x_t; b samples) over all M clients
else         every client of the cohort: g_{i,0} = g_{t−1} + ∇f_i(x_t; B) − ∇f_i(x_{t−1}; B) on a batch B of b samples;
             K steps y_{k+1} = y_k − η_l·g_{i,k} from y_0 = x_t, where on batches of b' samples
             g_{i,k} = g_{i,k−1} + ∇f_i(y_k; B_k) − ∇f_i(y_{k−1}; B_k);  Δ = x_t − y_K
             g_t = mean of Δ/(K·η_l)
server       x_{t+1} = x_t − η_s·g_t
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedamd.algorithms import checks
from fedamd.algorithms.base import Batches, Dialogue, Exchange, Gradient, Reply, Size, State, Task, Turn, role
from fedamd.algorithms.local import LocalSteps, recursive_steps, survey
from fedamd.algorithms.parameters import param
from fedamd.algorithms.space import GRADIENT_RATE, LOCAL_RATE, Log, Space
from fedamd.oracles.base import Batch


@role("worker", gradients=2)
def walk_from_estimate(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """Bring the server's estimate to x_t on the client's own data, and take K recursive steps along it."""
    large, *small = batches
    g = grad.corrected(task.g, task.x, task.previous, large)
    return Reply(delta=task.x - recursive_steps(task.x, g, task.eta_l, small, grad))


@dataclass(frozen=True, kw_only=True)
class FedPAGE(LocalSteps):
    """FedPAGE's hyper-parameters."""

    large_batch: Size = param("full", "b, the batch of full rounds and of g_{i,0}")
    p: float = param(0.5, "the probability of a full round")
    space: ClassVar[Space] = {"eta_l": LOCAL_RATE, "eta_s": GRADIENT_RATE, "p": Log(0.05, 0.5)}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.batch_size(self, "large_batch")
        checks.between(self, 0, 1, "p")

    def round(self, state: State, turn: Turn) -> Dialogue:
        """A full round of everyone or a round of the cohort, and a step along g_t."""
        large, known = Batches(1, self.large_batch), dict(state.items())
        if "g" not in known or turn.coin(self.p):
            replies = yield Exchange(survey.to(turn.federation.everyone, large, x=state.x))
            if not len(surveyors := replies["surveyor"]):
                return state
            g = surveyors.gradient.mean(0)
        else:
            replies = yield Exchange(
                walk_from_estimate.to(
                    turn.cohort,
                    large,
                    self.local_batches,
                    x=state.x,
                    previous=state.previous,
                    g=state.g,
                    eta_l=self.eta_l,
                )
            )
            if not len(workers := replies["worker"]):
                return state
            g = workers.delta.mean(0) / (self.steps * self.eta_l)
        return state.next(previous=state.x, g=g, **self.descend(state, g))
