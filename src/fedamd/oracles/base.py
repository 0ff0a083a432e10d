"""What a gradient oracle is: the only place where a model meets data.

Shapes come in two forms and every oracle takes both:
one model    x is (d,),   batch.samples is (B,),   gradients are (d,),   losses are ();
a stack      x is (N, d), batch.samples is (N, B), gradients are (N, d), losses are (N,): row i is model i on batch i.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples of a data set by number, with the weight of each in the batch's loss.

    The weights of a batch sum to one. A sample of weight zero is padding: it is there only to give the batches of a
    stack one length, and contributes nothing.
    """

    samples: Tensor  # int64, row numbers of the data set's training inputs
    weights: Tensor  # same shape, in the dtype of the parameters


@runtime_checkable
class Stepper(Protocol):
    """What an oracle may be besides: one with shorter ways for what local steps do with its gradients."""

    def step(self, x: Tensor, eta: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """x − η·∇f(x; B) and f(x; B)."""
        ...

    def corrected(self, g: Tensor, x: Tensor, previous: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """g − ∇f(previous; B) + ∇f(x; B) and f(x; B)."""
        ...


class Oracle(Protocol):
    """Loss f(x; B) = Σ_j w_j ℓ(x; z_j) and its gradient, at a flat parameter vector x or a stack of them."""

    @property
    def dimension(self) -> int:
        """d, the number of parameters."""
        ...

    def gradient(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """∇f(x; B) and f(x; B)."""
        ...

    def difference(self, x: Tensor, previous: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """∇f(x; B) − ∇f(previous; B) and f(x; B)."""
        ...

    def loss(self, x: Tensor, batch: Batch) -> Tensor:
        """f(x; B) alone: a forward pass."""
        ...

    def evaluate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss and accuracy (NaN where there are no classes) over the whole test set."""
        ...
