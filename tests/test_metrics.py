"""Metrics, their numbers worked out by hand."""

import math
import sys
from pathlib import Path

import pytest
import torch

from fedamd.errors import FedamdError
from fedamd.metrics import (
    DIRECTIONS,
    Measure,
    Target,
    accuracy,
    auc,
    f1,
    find_metric,
    mae,
    mse,
    parse_target,
    r2,
    target_for,
)


def logits(*classes: int, of: int = 3) -> torch.Tensor:
    return torch.nn.functional.one_hot(torch.tensor(classes), of).float()


def test_accuracy_of_classes_tokens_and_single_logits() -> None:
    assert accuracy(logits(0, 1, 2, 2), torch.tensor([0, 1, 2, 0])) == 0.75
    tokens = torch.stack([logits(0, 1), logits(2, 2)])  # (2, 2, 3)
    assert accuracy(tokens, torch.tensor([[0, 2], [2, -100]])) == pytest.approx(2 / 3)
    assert accuracy(torch.tensor([[-1.0], [2.0], [3.0]]), torch.tensor([0, 1, 0])) == pytest.approx(2 / 3)
    assert accuracy(torch.tensor([-1.0, 2.0]), torch.tensor([0, 1])) == 1.0


def test_f1_is_the_mean_over_classes() -> None:
    """Predicted 0 0 1 1, true 0 1 1 1: class 0 has 2·1/(2+1) = 2/3, class 1 has 2·2/(2+3) = 4/5."""
    assert f1(logits(0, 0, 1, 1), torch.tensor([0, 1, 1, 1])) == pytest.approx((2 / 3 + 4 / 5) / 2)


def test_auc_counts_pairs_in_order_and_ties_as_half() -> None:
    """Positives 0.8 and 0.4 against negatives 0.4 and 0.1: 0.8 wins twice, 0.4 ties once and wins once: 3.5 of 4."""
    scores, targets = torch.tensor([0.8, 0.4, 0.4, 0.1]), torch.tensor([1, 1, 0, 0])
    assert auc(scores, targets) == pytest.approx(3.5 / 4)
    assert auc(torch.stack([-scores, scores], -1), targets) == pytest.approx(3.5 / 4)


def test_auc_of_one_class_is_not_defined() -> None:
    assert math.isnan(auc(torch.tensor([0.1, 0.2]), torch.tensor([1, 1])))


def test_auc_of_several_classes_is_one_against_the_rest() -> None:
    assert auc(logits(0, 1, 2), torch.tensor([0, 1, 2])) == 1.0


def test_errors_of_numbers() -> None:
    """Errors 1, −2: squares 1 and 4, variance of the targets 1: r² = 1 − 2.5."""
    outputs, targets = torch.tensor([[2.0], [1.0]]), torch.tensor([1.0, 3.0])
    assert mse(outputs, targets) == 2.5
    assert mae(outputs, targets) == 1.5
    assert r2(outputs, targets) == pytest.approx(-1.5)


def test_a_metric_must_fit_the_data() -> None:
    with pytest.raises(FedamdError, match="metrics: f1 needs classes, and these data have none; fitting are mse"):
        find_metric("f1", classes=0)
    with pytest.raises(FedamdError, match=r"metrics: there is no 'acuracy' \(did you mean accuracy\?\)"):
        find_metric("acuracy", classes=3)


def test_own_functions_say_their_direction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_metrics.py").write_text(
        "def worst(outputs, targets):\n    return (outputs - targets).abs().max()\n\n\nworst.higher_is_better = False\n"
        "def broken(outputs, targets):\n    return outputs.nothing\n"
        "number = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    metric = find_metric("own_metrics:worst", classes=0)
    assert (metric.name, metric.higher_is_better) == ("worst", False)
    assert metric(torch.tensor([1.0, 5.0]), torch.tensor([1.0, 2.0])) == 3.0
    with pytest.raises(FedamdError, match=r"the metric broken failed on outputs of shape \(2,\)"):
        find_metric("own_metrics:broken", classes=0)(torch.ones(2), torch.ones(2))
    with pytest.raises(FedamdError, match="own_metrics:number is a int, not a function"):
        find_metric("own_metrics:number", classes=0)
    sys.modules.pop("own_metrics")


def test_a_class_of_torchmetrics_is_a_metric() -> None:
    pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    metric = find_metric("torchmetrics.classification:MulticlassF1Score", classes=2)
    outputs, targets = logits(0, 0, 1, 1, of=2), torch.tensor([0, 1, 1, 1])
    assert metric(outputs, targets) == pytest.approx(f1(outputs, targets))


def test_a_target_is_reached_from_the_side_that_is_good() -> None:
    error = Target(Measure("mse", higher_is_better=False), 0.1)
    assert [error.met_by(value) for value in (0.2, 0.1, 0.05)] == [False, True, True]
    share = Target(Measure(), 0.75)
    assert [share.met_by(value) for value in (0.7, 0.75, 0.8)] == [False, True, True]
    assert (error.text, share.text) == ("mse ≤ 0.1", "75%")


def test_a_number_is_for_what_runs_are_judged_by_and_a_name_for_anything_else() -> None:
    loss = Measure("test_loss", higher_is_better=False)
    assert target_for(parse_target("0.5"), loss, DIRECTIONS) == Target(loss, 0.5)
    assert target_for(parse_target("r2=0.9"), loss, DIRECTIONS) == Target(Measure("r2"), 0.9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("75", "at most 1, as 0.75 for 75 %, not 75"),
        ("nan", "an accuracy is above 0"),
        ("mse=inf", "no number to reach"),
        ("mze=0.1", "did you mean mse"),
        ("much", "expected a number or METRIC=NUMBER"),
    ],
)
def test_a_target_that_cannot_be(text: str, said: str) -> None:
    with pytest.raises(FedamdError, match=said):
        target_for(parse_target(text), Measure(), DIRECTIONS)
