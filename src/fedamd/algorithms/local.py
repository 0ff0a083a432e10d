"""What methods with local steps share: their hyper-parameters, and client functions that more than one of them uses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedamd.algorithms import checks
from fedamd.algorithms.base import Batches, Gradient, Reply, Size, Task, role
from fedamd.algorithms.parameters import param
from fedamd.algorithms.server import ServerStep
from fedamd.algorithms.space import LOCAL_RATE, SERVER_RATE, Space
from fedamd.oracles.base import Batch


@dataclass(frozen=True, kw_only=True)
class LocalSteps(ServerStep):
    """The hyper-parameters of K local steps of size η_l, each on a batch of b' samples."""

    eta_l: float = param(0.03, "η_l, the clients' step")
    steps: int = param(10, "K, the clients' local steps")
    small_batch: Size = param(64, "b', the batch of one local step")
    space: ClassVar[Space] = {"eta_l": LOCAL_RATE, "eta_s": SERVER_RATE}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(self, "eta_l")
        checks.whole(self, "steps")
        checks.batch_size(self, "small_batch")

    @property
    def local_batches(self) -> Batches:
        """B_0 … B_{K−1}."""
        return Batches(self.steps, self.small_batch)


@role("worker")
def walk(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """K steps of SGD from x_t: FedAvg's client, and FedNova's."""
    return Reply(delta=task.x - grad.descend(task.x, task.eta_l, batches))


@role("surveyor")
def survey(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """The large-batch gradient at x_t: the full rounds of FedPAGE and MARINA."""
    (large,) = batches
    return Reply(gradient=grad(task.x, large))


def recursive_steps(x: Tensor, g: Tensor, eta_l: Tensor, batches: Sequence[Batch], grad: Gradient) -> Tensor:
    """Where K steps along a recursive (SARAH) estimator lead from x: g ← g + ∇f_i(x_k; B_k) − ∇f_i(x_{k−1}; B_k).

    At k = 0 both gradients are at x and cancel, so the first step goes along g itself.
    """
    previous = x
    for batch in batches:
        g = grad.corrected(g, x, previous, batch)
        previous, x = x, x - eta_l * g
    return x


def storm(d: Tensor, x: Tensor, previous: Tensor, a: Tensor, batch: Batch, grad: Gradient) -> Tensor:
    """STORM's estimator at x, given d at the previous point: ∇f_i(x; B) + (1 − a)·(d − ∇f_i(previous; B)).

    Ashok Cutkosky & Francesco Orabona, "Momentum-based variance reduction in non-convex SGD", NeurIPS 2019. a = 0 is
    the recursive estimator of SARAH and of FedAMD's miners, a = 1 a plain gradient.
    """
    before = grad(previous, batch)  # first, so that the loss that is kept is the one at x
    return grad(x, batch) + (1 - a) * (d - before)
