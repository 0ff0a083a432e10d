"""Gradients of a stack of N models, each at its own parameters and on its own batch, in one call: the GPU's oracle.

For networks that are a sequence of convolutions, ReLU, 2×2 max-pooling and linear layers under softmax cross-entropy.
The forward and backward passes are written out layer by layer (`layers`, `convolution`) rather than left to
autograd: few kernels, little memory traffic, and nothing that waits for the GPU or depends on the data, so that a CUDA
graph can record a call.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from fedamd.data.base import Dataset
from fedamd.errors import FedamdError
from fedamd.oracles.architecture import NotPlain, ShapedLayer, check_labels, check_unaugmented, pair, sequence
from fedamd.oracles.base import Batch, Oracle
from fedamd.oracles.stacked.compilation import Compilation, compile_layer_kernels
from fedamd.oracles.stacked.convolution import Conv, ConvReLUPool, Geometry
from fedamd.oracles.stacked.kernels import has_kernels
from fedamd.oracles.stacked.layers import Flatten, Layer, LinearLayer, MaxPool, ReLU, Saved, spread

EVALUATION_NUMBERS = 2**28  # the most activations held at once while testing (1 GiB in float32)
ALIGNED = 16  # lengths that are multiples of this let the kernels read several samples at once


def unsupported(model: nn.Module, dataset: Dataset) -> str | None:
    """Why the stacked oracle cannot serve this model on these data, or None if it can."""
    try:
        layers = _layers(sequence(model, dataset.inputs.shape[1:]))
        check_labels(dataset, layers[-1].shape)
        check_unaugmented(dataset)
    except NotPlain as reason:
        return str(reason)
    return None


class StackedOracle(Oracle):
    """Oracle for stacks (N, d) of models; one model (d,) is a stack of one."""

    name = "stacked"
    description = "stacks of small networks on a GPU, each with its own weights"
    made_for = "cuda"
    stacks_on = ("cpu", "cuda")
    records_evaluation = True
    samples_at_once = 1 << 18

    @classmethod
    def unsupported(cls, model: nn.Module, dataset: Dataset) -> str | None:
        """See the function of this name."""
        return unsupported(model, dataset)

    def __init__(self, model: nn.Module, dataset: Dataset) -> None:
        """`dataset` is where the gradients are to be computed; `model` gives the architecture alone."""
        reason = unsupported(model, dataset)
        if reason is not None:
            raise FedamdError(
                f"The stacked oracle cannot run this model: {reason}. The autograd oracle takes any model."
            )
        shape = tuple(dataset.inputs.shape[1:])
        self.exact_in_batch = has_kernels(dataset.inputs)  # the library's products on a CPU are not
        self._data = dataset
        self._layers = _layers(sequence(model, shape))
        self._begun: dict[int, bool] = {}  # lengths of batches with kernels → whether backwards too
        self._compiling: list[Compilation] = []
        self._sizes = [layer.size for layer in self._layers]
        numbers = [math.prod(extents) for extents in (shape, *(layer.shape for layer in self._layers))]
        self._peak = max(
            before + after + layer.scratch(dataset.inputs)
            for (before, after), layer in zip(pairwise(numbers), self._layers, strict=True)
        )

    @property
    def dimension(self) -> int:
        """d, the number of parameters."""
        return sum(self._sizes)

    def expect(self, length: int) -> None:
        """Kernels are compiled for a length; that of the evaluation is known."""
        self._begin({length: True, self._test_length(): length == self._test_length()})

    def gradient(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """∇f(x; B) and f(x; B)."""
        if x.dim() == 1:
            gradient, loss = self.gradient(x.unsqueeze(0), _stack_of_one(batch))
            return gradient[0], loss[0]
        self._compile(batch.samples.shape[1], backwards=True)
        inputs = gather(self._data.inputs, batch.samples)
        parameters = self._split(x)
        saved: list[Saved] = []
        for layer, own in zip(self._layers, parameters, strict=True):
            inputs, kept = layer.forward(own, inputs)
            saved.append(kept)
        loss, upstream = cross_entropy(inputs, self._data.targets, batch)
        gradient = torch.empty_like(x, memory_format=torch.contiguous_format)
        parts = self._split(gradient)
        first = next(number for number, size in enumerate(self._sizes) if size)
        for number in reversed(range(first, len(self._layers))):
            layer, own, kept = self._layers[number], parameters[number], saved.pop()
            layer.backward(own, kept, upstream, parts[number])
            if number > first:
                upstream = layer.input_gradient(own, kept, upstream)
        return gradient, loss

    def difference(self, x: Tensor, previous: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """∇f(x; B) − ∇f(previous; B) and f(x; B): one call for both points, reading the batch once."""
        if x.dim() == 1:
            difference, loss = self.difference(x.unsqueeze(0), previous.unsqueeze(0), _stack_of_one(batch))
            return difference[0], loss[0]
        gradients, losses = self.gradient(torch.cat((x, previous)), batch)
        return gradients[: len(x)] - gradients[len(x) :], losses[: len(x)]

    def loss(self, x: Tensor, batch: Batch) -> Tensor:
        """f(x; B) alone: a forward pass."""
        if x.dim() == 1:
            return self.loss(x.unsqueeze(0), _stack_of_one(batch))[0]
        return cross_entropy(self._outputs(x, gather(self._data.inputs, batch.samples)), self._data.targets, batch)[0]

    def evaluate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss and accuracy over the whole test set, which all models of the stack share."""
        if x.dim() == 1:
            loss, accuracy = self.evaluate(x.unsqueeze(0))
            return loss[0], accuracy[0]
        targets = self._data.test_targets
        loss, right = x.new_zeros(len(x)), targets.new_zeros(len(x))
        length = self._test_length()
        self._compile(length, backwards=False)
        models = max(1, EVALUATION_NUMBERS // (length * self._peak))
        for chunk in self._test_chunks(length, x.dtype):
            inputs = gather(self._data.test_inputs, chunk.samples)
            for start in range(0, len(x), models):
                rows = slice(start, start + models)
                outputs = self._outputs(x[rows], inputs)
                loss[rows] += cross_entropy(outputs, targets, chunk)[0]
                right[rows] += ((outputs.argmax(1) == targets[chunk.samples]) & (chunk.weights > 0)).sum(1)
        return loss, right.to(x.dtype) / len(targets)

    def _begin(self, lengths: Mapping[int, bool]) -> None:
        """With those kernels for batches of these lengths, of which some are needed backwards, that are not yet."""
        new = {length: both for length, both in lengths.items() if self._begun.get(length) not in (both, True)}
        if new and has_kernels(self._data.inputs):
            self._begun |= new
            self._compiling.append(compile_layer_kernels(self._layers, self._data.inputs, new))

    def _compile(self, length: int, backwards: bool) -> None:
        """What this length needs, and whatever is under way: next, a CUDA graph may be recorded, and none can then."""
        if has_kernels(self._data.inputs) and not torch.cuda.is_current_stream_capturing():
            self._begin({length: backwards})
            while self._compiling:
                self._compiling.pop().wait()

    def _outputs(self, x: Tensor, inputs: Tensor) -> Tensor:
        """The logits (N, classes, B)."""
        for layer, own in zip(self._layers, self._split(x), strict=True):
            inputs, _ = layer.forward(own, inputs)
        return inputs

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        """Each layer's columns of a stack; the kernels rely on a row's numbers lying side by side."""
        return (x if x.stride(1) == 1 else x.contiguous()).split_with_sizes(self._sizes, 1)

    def _test_length(self) -> int:
        """How much of the test set is evaluated at once: all of it, or as much as memory has room for with one model.

        Kernels are compiled for a length, so that it is the same for any number of models; these are what is divided.
        """
        count = len(self._data.test_targets)
        pieces = math.ceil(count / max(1, EVALUATION_NUMBERS // self._peak))
        return math.ceil(count / pieces / ALIGNED) * ALIGNED

    def _test_chunks(self, length: int, dtype: torch.dtype) -> Iterator[Batch]:
        """The test set, shared by all models, in pieces of one length: the last repeats a sample, with weight zero."""
        count = len(self._data.test_targets)
        for start in range(0, count, length):
            numbers = torch.arange(start, start + length, device=self._data.test_targets.device).unsqueeze(0)
            yield Batch(numbers.clamp(max=count - 1), (numbers < count).to(dtype) / count)


def _stack_of_one(batch: Batch) -> Batch:
    return Batch(batch.samples.unsqueeze(0), batch.weights.unsqueeze(0))


def gather(rows: Tensor, samples: Tensor) -> Tensor:
    """The rows named by `samples` (M, B), batch last: (M, *shape, B)."""
    if has_kernels(rows):
        from fedamd.oracles.stacked import triton_samples

        return triton_samples.gather(rows, samples)
    return rows[samples].movedim(1, -1).contiguous()


def cross_entropy(logits: Tensor, targets: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """The weighted losses (N,), and their gradient with respect to the logits (N, classes, B)."""
    if has_kernels(logits):
        from fedamd.oracles.stacked import triton_samples

        return triton_samples.cross_entropy(logits, targets, batch.samples, batch.weights)
    own, weights = (spread(values, len(logits)).unsqueeze(1) for values in (targets[batch.samples], batch.weights))
    logarithms = logits.log_softmax(1)
    losses = -logarithms.gather(1, own) * weights
    gradient = (logarithms.exp() * weights).scatter_add(1, own, -weights)
    return losses.sum((1, 2)), gradient


def _layers(steps: Sequence[ShapedLayer]) -> list[Layer]:
    """The network, every convolution + ReLU + pooling fused, and ReLU between linear layers with them."""
    layers: list[Layer] = []
    while steps:
        geometry = _geometry(steps[0])
        if geometry is None:
            layers.append(_single_layer(steps[0]))
            taken = 1
        elif _starts_block(steps) and min(geometry.outputs[1:]) > 1:
            layers.append(ConvReLUPool(geometry))
            taken = 3
        else:
            layers.append(Conv(geometry))
            taken = 1
        steps = steps[taken:]
    return _with_fused_relu(layers)


def _with_fused_relu(layers: Sequence[Layer]) -> list[Layer]:
    """Where ReLU lies between two linear layers."""
    fused: list[Layer] = []
    for layer, following in zip(layers, [*layers[1:], None], strict=True):
        before = fused[-1] if fused else None
        if isinstance(layer, ReLU) and isinstance(before, LinearLayer) and isinstance(following, LinearLayer):
            before.rectifies = following.rectified = True
        else:
            fused.append(layer)
    return fused


def _starts_block(steps: Sequence[ShapedLayer]) -> bool:
    """Whether a convolution, the first of these, is followed by ReLU and pooling."""
    return len(steps) > 2 and isinstance(steps[1].layer, nn.ReLU) and _is_pool(steps[2].layer)


def _geometry(step: ShapedLayer) -> Geometry | None:
    """Of a convolution."""
    conv = step.layer
    if not isinstance(conv, nn.Conv2d):
        return None
    if conv.bias is None:
        raise NotPlain(f"only convolutions with bias: not {conv}")
    channels, height, width = step.inputs
    settings = (pair(conv.kernel_size), pair(conv.stride), pair(conv.padding))
    return Geometry((channels, height, width), conv.out_channels, *settings)


def _single_layer(step: ShapedLayer) -> Layer:
    layer = step.layer
    if isinstance(layer, nn.Linear) and layer.bias is not None:
        return LinearLayer(layer.in_features, layer.out_features)
    if isinstance(layer, nn.Flatten):
        return Flatten(step.outputs)
    if isinstance(layer, nn.ReLU):
        return ReLU(step.outputs)
    if _is_pool(layer):
        return MaxPool(step.outputs)
    raise NotPlain(f"it has no layer {layer} for inputs of shape {step.inputs}")


def _is_pool(layer: nn.Module) -> bool:
    """Whether this is max-pooling of 2×2 windows side by side."""
    if not isinstance(layer, nn.MaxPool2d):
        return False
    return (pair(layer.kernel_size), pair(layer.stride), pair(layer.padding)) == ((2, 2), (2, 2), (0, 0))
