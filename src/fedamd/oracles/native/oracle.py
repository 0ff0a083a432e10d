"""The oracle's Python side: checks what it is given and hands pointers to the C++ library, which releases the GIL."""

import ctypes
import math
import os
import weakref
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor, nn

from fedamd.data.base import Dataset
from fedamd.errors import FedamdError
from fedamd.oracles.base import Batch, Oracle
from fedamd.oracles.native.layers import Description, describe, have_dropout, unsupported
from fedamd.oracles.native.library import available, check, declare, load
from fedamd.torchrun import processes_here


class NativeOracle(Oracle):
    """Cross-entropy of an `nn.Sequential` on a data set. Parameters are laid out as `model.parameters()` are."""

    name = "native"
    description = "C++ for small networks on a CPU, samples in the SIMD lanes"
    made_for = "cpu"
    stacks_on = ("cpu",)
    exact_in_batch = True
    samples_at_once = 640  # ten small batches: few calls from Python, and something left to deal out

    @classmethod
    def unavailable(cls) -> str | None:
        """Whether there is a library."""
        return available()

    @classmethod
    def unsupported(cls, model: nn.Module, dataset: Dataset) -> str | None:
        """See `layers`."""
        return unsupported(model, dataset)

    def workers(self) -> Sequence[Oracle]:
        """One for every CPU of this process; all are the same, whose threads share the work of all calls."""
        count = own_cpus()
        return [NativeOracle(*self._made_of, threads=count)] * count

    def __init__(self, model: nn.Module, dataset: Dataset, threads: int | None = None) -> None:
        reason = available() or unsupported(model, dataset)
        if reason is not None:
            raise FedamdError(f"the native oracle cannot be used: {reason}")
        self._library = _library()
        self._made_of = (model, dataset)
        self._train = _Data.of(dataset.inputs, dataset.targets)
        self._test = _Data.of(dataset.test_inputs, dataset.test_targets)
        layers = describe(model, dataset)
        self.keyed = have_dropout(layers)
        shape = dataset.inputs.shape[1:]
        self._handle = ctypes.c_void_p()
        dimension = ctypes.c_int64()
        check(
            self._library.fedamd_create(
                (Description * len(layers))(*layers),
                len(layers),
                (ctypes.c_int64 * len(shape))(*shape),
                len(shape),
                visible_cpus() if threads is None else threads,
                ctypes.byref(self._handle),
                ctypes.byref(dimension),
            )
        )
        weakref.finalize(self, self._library.fedamd_destroy, self._handle)
        self._dimension = dimension.value

    @property
    def dimension(self) -> int:
        """d, the number of parameters."""
        return self._dimension

    def gradient(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """∇f(x; B) and f(x; B)."""
        return self._gradient(x, batch)

    def difference(self, x: Tensor, previous: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """∇f(x; B) − ∇f(previous; B) and f(x; B): the samples are brought into the lanes once for both."""
        return self._gradient(x, batch, previous=previous)

    def corrected(self, g: Tensor, x: Tensor, previous: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """g − ∇f(previous; B) + ∇f(x; B) and f(x; B): summed up from g on instead of from zero."""
        return self._gradient(x, batch, previous=previous, start=g)

    def step(self, x: Tensor, eta: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """x − η·∇f(x; B) and f(x; B): the step is taken while the gradient is still in a core's cache."""
        x, (loss,) = self.descend(x, eta, [batch])
        return x, loss

    def descend(self, x: Tensor, eta: Tensor, batches: Sequence[Batch]) -> tuple[Tensor, list[Tensor]]:
        """Where such steps lead, one on each batch, and their losses: one call, and Python is in nobody's way."""
        start, apart = self._rows(x)
        x = start.new_empty(x.shape) if batches else x.clone()
        rates = torch.as_tensor(eta, dtype=torch.float32).expand(*x.shape[:-1], 1).contiguous()
        losses = x.new_empty(len(batches), *x.shape[:-1])
        given = [_Batches.of(batch, x, self.keyed) for batch in batches]
        every = (_Batches * len(given))(*given)
        out = [_pointer(tensor) for tensor in (x, losses)]
        check(
            self._library.fedamd_descend(
                self._handle, self._train, every, len(given), _pointer(rates), _pointer(start), apart, *out
            )
        )
        return x, list(losses.unbind())

    def loss(self, x: Tensor, batch: Batch) -> Tensor:
        """f(x; B) alone: a forward pass."""
        return self._score(x, self._train, batch)[0]

    def score_each(self, x: Tensor, samples: "_Data") -> tuple[Tensor, Tensor]:
        """The loss of each of these samples, and 1 where it is classified rightly, else 0; see `in_lanes`."""
        x = self._parameters(x)
        if x.dim() != 1:
            raise FedamdError("samples are scored one by one for a single model")
        losses, right = x.new_empty(samples.count), x.new_empty(samples.count)
        self._score(x, samples, None, losses, right)
        return losses, right

    def evaluate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss and accuracy over the whole test set."""
        if self._test.count == 0:
            raise FedamdError("the data set has no test samples to evaluate on")
        if self._test.lanes is None:
            self._test.arrange()  # it comes again in every round
        return self._score(x, self._test, None)

    def _gradient(
        self,
        x: Tensor,
        batch: Batch,
        *,
        previous: Tensor | None = None,
        start: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        x = self._parameters(x)
        previous, start = (None if other is None else self._alike(other, x) for other in (previous, start))
        result, loss = torch.empty_like(x), x.new_empty(x.shape[:-1])
        batches, given = _Batches.of(batch, x, self.keyed), [_pointer(tensor) for tensor in (x, previous, start)]
        check(
            self._library.fedamd_gradient(self._handle, self._train, batches, *given, _pointer(result), _pointer(loss))
        )
        return result, loss

    def _score(
        self, x: Tensor, data: "_Data", batch: Batch | None, losses: Tensor | None = None, right: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        x = self._parameters(x)
        loss, accuracy = x.new_empty(x.shape[:-1]), x.new_empty(x.shape[:-1])
        batches = _Batches.of(batch, x, self.keyed) if batch else _Batches.everything(data, x)
        out = [_pointer(tensor) for tensor in (x, loss, accuracy, losses, right)]
        check(self._library.fedamd_score(self._handle, data, batches, *out))
        return loss, accuracy

    def _alike(self, other: Tensor, x: Tensor) -> Tensor:
        other = self._parameters(other)
        if other.shape != x.shape:
            raise FedamdError(f"x has the shape {tuple(x.shape)} and what goes with it {tuple(other.shape)}")
        return other

    def _rows(self, x: Tensor) -> tuple[Tensor, int]:
        """The parameters, and how far their rows are apart: one model that all rows share is not copied for each."""
        shared = x.dim() == 2 and x.stride(0) == 0 and len(x) > 0
        return (self._parameters(x[0]), 0) if shared else (self._parameters(x), self._dimension)

    def _parameters(self, x: Tensor) -> Tensor:
        if x.dtype != torch.float32 or x.device.type != "cpu":
            raise FedamdError(f"the native oracle takes float32 parameters on the CPU, not {x.dtype} on {x.device}")
        if x.dim() not in (1, 2) or x.shape[-1] != self._dimension:
            raise FedamdError(
                f"parameters must have the shape ({self._dimension},) or (N, {self._dimension}), not {tuple(x.shape)}"
            )
        return x.detach().contiguous()


@cache
def _library() -> ctypes.CDLL:
    library = load()
    integers, pointer, number = ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p, ctypes.c_int64
    declare(library, "fedamd_create", pointer, number, integers, number, number, ctypes.POINTER(pointer), integers)
    declare(library, "fedamd_gradient", pointer, _Data, _Batches, *[pointer] * 5)
    descent = (ctypes.POINTER(_Batches), number, pointer, pointer, number, pointer, pointer)
    declare(library, "fedamd_descend", pointer, _Data, *descent)
    declare(library, "fedamd_score", pointer, _Data, _Batches, *[pointer] * 5)
    library.fedamd_destroy.argtypes, library.fedamd_destroy.restype = [pointer], None
    library.fedamd_lanes.argtypes, library.fedamd_lanes.restype = [], number
    return library


def in_lanes(inputs: Tensor, targets: Tensor) -> "_Data":
    """Samples that are scored again and again."""
    samples = _Data.of(inputs, targets)
    samples.arrange()
    return samples


def visible_cpus() -> int:
    """The CPUs this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def own_cpus() -> int:
    """This process's share of them, where torchrun has started several on this machine."""
    return max(1, visible_cpus() // processes_here())


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


class _Data(ctypes.Structure):
    """Inputs and targets; keeps the tensors it points into."""

    _fields_ = (
        ("inputs", ctypes.c_void_p),
        ("targets", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("lanes", ctypes.c_void_p),
    )
    tensors: tuple[Tensor, ...]

    @classmethod
    def of(cls, inputs: Tensor, targets: Tensor) -> "_Data":
        inputs, targets = inputs.contiguous(), targets.contiguous()
        data = cls(inputs.data_ptr(), targets.data_ptr(), len(inputs), None)
        data.tensors = (inputs, targets)
        return data

    def arrange(self) -> None:
        """Put a copy of the inputs into the lanes for good: block after block of samples side by side."""
        inputs, side_by_side = self.tensors[0].flatten(1), _library().fedamd_lanes()
        whole = torch.nn.functional.pad(inputs, (0, 0, 0, -len(inputs) % side_by_side))
        lanes = whole.view(-1, side_by_side, inputs.shape[1]).transpose(1, 2).contiguous()
        self.tensors, self.lanes = (*self.tensors, lanes), lanes.data_ptr()


def _keys(batch: Batch) -> Tensor:
    """The keys that dropout takes its masks from."""
    if batch.keys is None:
        raise FedamdError("the model has dropout, which needs the keys of the batch's samples for its masks")
    if batch.keys.dtype != torch.int64 or batch.keys.shape != batch.samples.shape or batch.keys.device.type != "cpu":
        raise FedamdError("the keys of a batch are int64, one for every sample, on the CPU")
    return batch.keys.contiguous()


class _Batches(ctypes.Structure):
    """One batch per model; keeps the tensors it points into."""

    _fields_ = (
        ("samples", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("models", ctypes.c_int64),
        ("length", ctypes.c_int64),
        ("keys", ctypes.c_void_p),
    )
    tensors: tuple[Tensor, ...]

    @classmethod
    def of(cls, batch: Batch, x: Tensor, keyed: bool) -> "_Batches":
        samples, weights = batch.samples.contiguous(), batch.weights.contiguous()
        if samples.dtype != torch.int64 or weights.dtype != torch.float32:
            raise FedamdError(f"a batch is int64 samples and float32 weights, not {samples.dtype} and {weights.dtype}")
        if samples.device.type != "cpu" or weights.device.type != "cpu":
            raise FedamdError("the native oracle takes batches on the CPU")
        if samples.shape != weights.shape or samples.shape[:-1] != x.shape[:-1] or samples.dim() != x.dim():
            raise FedamdError(
                f"parameters {tuple(x.shape)}, samples {tuple(samples.shape)} and weights {tuple(weights.shape)} "
                "do not go together: one row of samples and weights per model"
            )
        keys = _keys(batch) if keyed else None
        models, length = math.prod(x.shape[:-1]), samples.shape[-1]
        batches = cls(samples.data_ptr(), weights.data_ptr(), models, length, _pointer(keys))
        batches.tensors = (samples, weights) if keys is None else (samples, weights, keys)
        return batches

    @classmethod
    def everything(cls, data: _Data, x: Tensor) -> "_Batches":
        """All samples of the data set, equally weighted, for every model."""
        return cls(None, None, math.prod(x.shape[:-1]), data.count)
