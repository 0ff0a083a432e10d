"""What a model is measured by besides its loss: metrics by name, or one's own function (outputs, targets) → number.

A metric sees the outputs of the whole test set (N, …) and its targets (N, …) at once, so those that are no means over
samples (F1, AUC) are exact. An own function may say `higher_is_better = False` as an attribute; a class of torchmetrics
(`torchmetrics.classification:MulticlassF1Score`) says so by itself and is told the number of classes.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedamd.errors import FedamdError, at_work
from fedamd.registry import choose, import_object

Compute = Callable[[Tensor, Tensor], Any]
Parts = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Metric:
    """A number that outputs and targets come to, and in which direction it is good."""

    name: str
    compute: Compute
    higher_is_better: bool = True
    classifies: bool | None = None  # True: needs classes; False: needs targets that are numbers; None: takes either
    parts: Parts | None = None  # of a mean over samples: every sample's sum, and how many numbers that is of

    def __call__(self, outputs: Tensor, targets: Tensor) -> float:
        """The number; NaN where it is not defined for these samples."""
        shapes = f"outputs of shape {tuple(outputs.shape)} and targets of shape {tuple(targets.shape)}"
        with at_work(f"the metric {self.name} failed on {shapes}"):
            return float(self.compute(outputs, targets))


@dataclass(frozen=True)
class Measure:
    """What runs are judged by: a name in their records, and in which direction it is good."""

    name: str = "accuracy"
    higher_is_better: bool = True

    @property
    def label(self) -> str:
        """In words."""
        return self.name.replace("_", " ")

    def score(self, value: float) -> float:
        """The larger, the better."""
        return value if self.higher_is_better else -value

    def best(self, values: Iterable[float]) -> float | None:
        """The best of them; None of nothing."""
        return max(values, key=self.score, default=None)

    def text(self, value: float | None, digits: int = 4) -> str:
        """As people read it: accuracies in percent, other numbers with so many digits."""
        if value is None:
            return "–"
        return f"{100 * value:.2f}%" if self.name == "accuracy" else f"{value:.{digits}g}"


@dataclass(frozen=True)
class Target:
    """What something measured is to reach: at least a value, or at most, as is good for it."""

    measure: Measure
    value: float

    def __post_init__(self) -> None:
        if self.measure.name == "accuracy" and not 0 < self.value <= 1:
            raise FedamdError(f"target: an accuracy is above 0 and at most 1, as 0.75 for 75 %, not {self.value:g}")
        if not math.isfinite(self.value):
            raise FedamdError(f"target: {self.value} is no number to reach")

    def met_by(self, value: float) -> bool:
        """Whether this value is as good."""
        return self.measure.score(value) >= self.measure.score(self.value)

    @property
    def text(self) -> str:
        """As in "75%" and "mse ≤ 0.1"."""
        if self.measure.name == "accuracy":
            return f"{100 * self.value:g}%"
        return f"{self.measure.label} {'≥' if self.measure.higher_is_better else '≤'} {self.value:g}"


def target_for(asked: float | Mapping[str, float], measure: Measure, directions: Mapping[str, bool]) -> Target:
    """A number is meant for what runs are judged by; {metric: number} for anything else that is measured."""
    if not isinstance(asked, Mapping):
        return Target(measure, asked)
    ((name, value),) = asked.items()
    return Target(Measure(name, choose(directions, name, "target")), value)


def parse_target(text: str) -> float | dict[str, float]:
    """`0.75` or `mse=0.1`, from the command line."""
    metric, equals, value = text.rpartition("=")
    try:
        return {metric.strip(): float(value)} if equals else float(value)
    except ValueError:
        raise FedamdError(f"--target {text}: expected a number or METRIC=NUMBER, as in 0.75 or mse=0.1") from None


def measure_for(metrics: Iterable[str], classes: int) -> Measure:
    """What a run is judged by: the first of its metrics, else accuracy; the test loss where nothing is classified."""
    for name in metrics:
        metric = find_metric(name, classes)
        return Measure(metric.name, metric.higher_is_better)
    return Measure() if classes else Measure("test_loss", higher_is_better=False)


def predicted_classes(outputs: Tensor, targets: Tensor) -> Tensor:
    """The class with the largest output; one output alone is a logit of class 1."""
    if outputs.shape == targets.shape:
        return (outputs > 0).long()
    if outputs.shape[:-1] == targets.shape and outputs.shape[-1] == 1:
        return (outputs.squeeze(-1) > 0).long()
    return outputs.argmax(-1)


def accuracy(outputs: Tensor, targets: Tensor) -> Tensor:
    """The share of samples classified right; targets of −100 do not count."""
    return _mean(_right(outputs, targets))


def _right(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """How many of every sample's targets are predicted right, and how many it has."""
    real = targets != -100
    right = (predicted_classes(outputs, targets) == targets) & real
    return _sums(right), _sums(real)


def f1(outputs: Tensor, targets: Tensor) -> float:
    """2TP/(2TP + FP + FN), the mean over the classes that occur among targets or predictions."""
    predicted, targets = predicted_classes(outputs, targets).flatten(), targets.flatten()
    predicted, targets = predicted[targets != -100], targets[targets != -100]
    if not len(targets):
        return math.nan
    right = torch.bincount(targets[predicted == targets], minlength=1 + int(max(predicted.max(), targets.max())))
    occurring = torch.bincount(torch.cat([predicted, targets]), minlength=len(right))
    scores = 2 * right.double() / occurring
    return float(scores[occurring > 0].mean())


def auc(outputs: Tensor, targets: Tensor) -> float:
    """The area under the ROC curve; of several classes, the mean over one against the rest."""
    targets = targets.flatten()
    if outputs.numel() == targets.numel():
        return float(_areas(outputs.reshape(1, -1), targets == 1))
    scores = outputs.reshape(len(targets), -1).double().softmax(-1).T
    if len(scores) == 2:
        return float(_areas(scores[1:], targets == 1))
    return float(_areas(scores, targets == torch.arange(len(scores), device=targets.device)[:, None]).nanmean())


def _areas(scores: Tensor, positive: Tensor) -> Tensor:
    """For each row the probability that a positive scores higher than a negative (Mann–Whitney), ties counting one
    half; NaN where all are positive, or none is."""
    scores = scores.double().contiguous()
    ordered = scores.sort(-1).values
    first, last = torch.searchsorted(ordered, scores), torch.searchsorted(ordered, scores, right=True)
    rank = (first + last + 1) / 2  # the mean rank of equal scores
    count = positive.sum(-1).double()
    wins = (rank * positive).sum(-1) - count * (count + 1) / 2
    return wins / (count * (scores.shape[-1] - count))


def mse(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean squared error."""
    return _mean(_squares(outputs, targets))


def _squares(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    errors = (outputs.reshape(targets.shape).double() - targets.double()).square()
    return _sums(errors), _sums(torch.ones_like(errors))


def mae(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean absolute error."""
    return _mean(_distances(outputs, targets))


def _distances(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    errors = (outputs.reshape(targets.shape).double() - targets.double()).abs()
    return _sums(errors), _sums(torch.ones_like(errors))


def _sums(values: Tensor) -> Tensor:
    """Of every sample's numbers."""
    return values.reshape(len(values), -1).double().sum(-1)


def _mean(parts: tuple[Tensor, Tensor]) -> Tensor:
    sums, counts = parts
    return sums.sum() / counts.sum()


def r2(outputs: Tensor, targets: Tensor) -> Tensor:
    """1 − the squared error over the variance of the targets."""
    targets = targets.double()
    return 1 - mse(outputs, targets) / (targets - targets.mean(0)).square().mean()


METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy", accuracy, classifies=True, parts=_right),
    "f1": Metric("f1", f1, classifies=True),
    "auc": Metric("auc", auc, classifies=True),
    "mse": Metric("mse", mse, higher_is_better=False, classifies=False, parts=_squares),
    "mae": Metric("mae", mae, higher_is_better=False, classifies=False, parts=_distances),
    "r2": Metric("r2", r2, classifies=False),
}


USUAL = {"accuracy": True, "loss": False, "test_loss": False}  # is recorded anyway; whether more of it is better
DIRECTIONS = USUAL | {name: metric.higher_is_better for name, metric in METRICS.items()}


def find_metric(name: str, classes: int, where: str = "metrics") -> Metric:
    """The metric of this name for data of so many classes (0: numbers), or one's own at "package.module:name"."""
    if ":" in name:
        return _own(name, import_object(name, where), classes)
    metric = choose(METRICS, name, where)
    if metric.classifies is not None and metric.classifies != bool(classes):
        kind = "classes" if metric.classifies else "numbers to predict"
        fitting = [one.name for one in METRICS.values() if one.classifies in (None, bool(classes))]
        raise FedamdError(f"{where}: {name} needs {kind}, and these data have none; fitting are {', '.join(fitting)}")
    return metric


def measured_directions(metrics: Iterable[str]) -> dict[str, bool]:
    """Whether more is better, for everything that a run with these metrics records."""
    own = [_own(name, import_object(name, "metrics"), 0) if ":" in name else METRICS[name] for name in metrics]
    return USUAL | {metric.name: metric.higher_is_better for metric in own}


def _own(path: str, found: Any, classes: int) -> Metric:
    name = path.rpartition(":")[2]
    if inspect.isclass(found) and all(hasattr(found, part) for part in ("update", "compute", "reset")):
        return Metric(name, _of_torchmetrics(found, classes), bool(getattr(found, "higher_is_better", True)))
    if not callable(found) or inspect.isclass(found):
        raise FedamdError(f"metrics: {path} is a {type(found).__name__}, not a function of outputs and targets")
    return Metric(name, found, bool(getattr(found, "higher_is_better", True)))


def _of_torchmetrics(kind: Any, classes: int) -> Compute:
    """A class of torchmetrics as a function."""
    takes = inspect.signature(kind).parameters
    options = {"num_classes": classes} if "num_classes" in takes and classes else {}

    def compute(outputs: Tensor, targets: Tensor) -> Tensor:
        metric = kind(**options).to(outputs.device)
        metric.update(outputs if classes else outputs.reshape(targets.shape), targets)
        value: Tensor = metric.compute()
        return value

    return compute
