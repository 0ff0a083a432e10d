"""Whether an oracle computes the gradient of the model: seen on samples of the data, against autograd in float64.

A hand-written oracle refuses what it cannot compute (`architecture`); this is the second look, once per run, at its
first batch. Rounding may send two computations through different sides of a ReLU, where gradients jump, so one batch
of a few may disagree; a wrong function disagrees on most. Where autograd itself is far off in the model's precision (a
deep network on a GPU), the oracle may be a few times as far.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils.weak import WeakIdKeyDictionary

from fedamd.data.base import Dataset
from fedamd.oracles.autograd import AutogradOracle
from fedamd.oracles.base import Batch, Oracle
from fedamd.oracles.objective import flat_parameters

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-8}  # of the gradient's norm, and of the loss
_SAMPLES = 16  # in a batch
_BATCHES = 3  # of which one may disagree
_TIMES = 4  # as far off as autograd in the same precision

_seen: Any = WeakIdKeyDictionary()  # inputs → (oracle, model) → the answer: runs of a sweep share both


def disagreement(oracle: Oracle, model: nn.Module, dataset: Dataset, length: int = 0) -> str | None:
    """How the oracle's gradient differs from the model's at its initial parameters; None if it does not.

    Its batches are filled up to the length it expects, with samples of no weight.
    """
    if not len(dataset.inputs):
        return None
    answers = _seen.setdefault(dataset.inputs, {})
    key = (type(oracle), type(model), repr(model), flat_parameters(model).dtype)
    if key not in answers:
        answers[key] = _compared(oracle, model, dataset, max(0, length - _SAMPLES))
    answer: str | None = answers[key]
    return answer


def _compared(oracle: Oracle, model: nn.Module, dataset: Dataset, padding: int) -> str | None:
    x = flat_parameters(model)
    batches = _spread_out(len(dataset.inputs)).to(x.device)
    reference = AutogradOracle(deepcopy(model).double(), _excerpt(dataset, batches))
    weights = torch.full(batches.shape, 1 / _SAMPLES, dtype=x.dtype, device=x.device)
    places = torch.arange(batches.numel(), device=x.device).view_as(batches)
    keys = places if reference.keyed else None  # of the masks of dropout: any will do that are the same for both

    expected = _one_by_one(reference, x.double(), Batch(places, weights, keys))
    stack = Batch(batches, weights, keys)
    usual = _distances(_one_by_one(AutogradOracle(model, dataset), x, stack), expected)
    stack = _filled_up(stack, padding)
    try:
        alone = _one_by_one(oracle, x, stack)
        stacked = () if oracle.cannot_stack() else oracle.gradient(x.expand(_BATCHES, -1), stack)
    except RuntimeError as error:  # kernels that do not run here
        return f"it fails ({str(error).strip().splitlines()[0]})"
    for answers in (alone, list(zip(*stacked, strict=True))):
        off = zip(_distances(answers, expected), usual, strict=False)
        wrong = [distance for distance, own in off if not distance <= max(TOLERANCE[x.dtype], _TIMES * own)]  # NaN too
        if len(wrong) > 1:
            return f"its gradient is {wrong[0]:.1%} off autograd's in float64"
    return None


def _one_by_one(oracle: Oracle, x: Tensor, stack: Batch) -> list[tuple[Tensor, Tensor]]:
    keys, weights = stack.keys, stack.weights.to(x.dtype)
    rows = [Batch(stack.samples[i], weights[i], None if keys is None else keys[i]) for i in range(_BATCHES)]
    return [oracle.gradient(x, row) for row in rows]


def _filled_up(stack: Batch, padding: int) -> Batch:
    """With so many samples of no weight in every row."""
    keys = None if stack.keys is None else pad(stack.keys, (0, padding))
    return Batch(pad(stack.samples, (0, padding)), pad(stack.weights, (0, padding)), keys)


def _distances(answers: Sequence[Sequence[Tensor]], expected: Sequence[Sequence[Tensor]]) -> list[float]:
    return [_distance(got, wanted) for got, wanted in zip(answers, expected, strict=False)]


def _distance(got: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Of gradient and loss, whichever is further off."""
    return max(_relative(ours, theirs) for ours, theirs in zip(got, expected, strict=True))


def _spread_out(count: int) -> Tensor:
    """Samples from all over the data set, (batches, samples)."""
    return torch.linspace(0, count - 1, _BATCHES * _SAMPLES).long().view(_SAMPLES, _BATCHES).T.contiguous()


def _excerpt(dataset: Dataset, samples: Tensor) -> Dataset:
    """These samples alone, in float64."""
    chosen = samples.flatten()
    few = replace(
        dataset,
        inputs=dataset.inputs[chosen],
        targets=dataset.targets[chosen],
        test_inputs=dataset.test_inputs[:0],
        test_targets=dataset.test_targets[:0],
        client_tests=None,
    )
    return few.to(dataset.inputs.device, torch.float64)


def _relative(got: Tensor, expected: Tensor) -> float:
    """The distance, in units of what is expected; where that is nearly nothing, in units of one."""
    return float((got.double() - expected).norm() / expected.norm().clamp(min=1e-6))
