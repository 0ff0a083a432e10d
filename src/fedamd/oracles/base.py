"""What a gradient oracle is: the only place where a model meets data.

Shapes come in two forms and every oracle takes both:
one model    x is (d,),   batch.samples is (B,),   gradients are (d,),   losses are ();
a stack      x is (N, d), batch.samples is (N, B), gradients are (N, d), losses are (N,): row i is model i on batch i.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from torch import Tensor, nn

from fedamd.data.base import Dataset


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples of a data set by number, with the weight of each in the batch's loss.

    The weights of a batch sum to one. A sample of weight zero is padding: it is there only to give the batches of a
    stack one length, and contributes nothing.
    """

    samples: Tensor  # int64, row numbers of the data set's training inputs
    weights: Tensor  # same shape, in the dtype of the parameters
    keys: Tensor | None = None  # same shape, int64: the address of each sample's own draws, for oracles that are keyed


@runtime_checkable
class Stepper(Protocol):
    """What an oracle may be besides: one with shorter ways for what local steps do with its gradients."""

    def step(self, x: Tensor, eta: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """x − η·∇f(x; B) and f(x; B)."""
        ...

    def corrected(self, g: Tensor, x: Tensor, previous: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """g − ∇f(previous; B) + ∇f(x; B) and f(x; B)."""
        ...


class Packing(Protocol):
    """Another form of stacks of models, without the parameters that cannot matter."""

    size: int  # numbers of a model

    def pack(self, x: Tensor, out: Tensor) -> None:
        """Put models (N, d) into (N, size)."""
        ...

    def unpack(self, packed: Tensor, out: Tensor) -> None:
        """Put what is packed into its places in (N, d); the other places stay as they are."""
        ...

    def subtract(self, packed: Tensor, out: Tensor) -> None:
        """Take what is packed off the numbers in its places in (N, d)."""
        ...


@runtime_checkable
class PackedOracle(Protocol):
    """What an oracle may be besides: one that works on packed stacks, in which steps can be taken."""

    packing: Packing

    def gradient_into(self, out: Tensor, x: Tensor, batch: Batch) -> Tensor:
        """Put ∇f(x; B) of a packed stack where it is wanted, packed; f(x; B)."""
        ...


class Oracle(Protocol):
    """Loss f(x; B) = Σ_j w_j ℓ(x; z_j) and its gradient, at a flat parameter vector x or a stack of them.

    A class of oracles says for itself what it takes and how it is best used; inherit from this one for the usual
    answers, and list the class in `catalogue` (or name it `oracle = "package.module:Class"`) to have it chosen.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    made_for: ClassVar[str | None] = None  # the kind of device it is fast on; None: any
    stacks_on: ClassVar[tuple[str, ...]] = ("cuda",)  # devices where one call for many clients beats a call for each
    exact_in_batch: bool = False  # whether a row of a stack is the same bits whatever the other rows
    records_evaluation: bool = False  # whether `evaluate` never waits for a GPU, so that a CUDA graph can record it
    keyed: bool = False  # whether batches must have keys, for the masks of dropout
    samples_at_once: int = 1 << 15  # in one gradient call, over all rows of a stack

    def __init__(self, model: nn.Module, dataset: Dataset) -> None:
        """`dataset` is where gradients are taken, on its device; `model` may be looked at, never changed."""
        ...

    @classmethod
    def unavailable(cls) -> str | None:
        """Why it cannot be used on this machine and how to fix that; None if it can."""
        return None

    @classmethod
    def unsupported(cls, model: nn.Module, dataset: Dataset) -> str | None:  # noqa: ARG003
        """Why it cannot take this model on these data; None if it can."""
        return None

    def cannot_stack(self) -> str | None:
        """Why a stack of models fails though one model works; None if it does not."""
        return None

    def expect(self, length: int) -> None:  # noqa: ARG002
        """Most batches will be of this length: what has to be prepared for that may begin, beside what comes next."""
        return

    def workers(self) -> Sequence["Oracle"]:
        """One like this for each thread that may play clients beside others; none if a call uses the whole device."""
        return ()

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
