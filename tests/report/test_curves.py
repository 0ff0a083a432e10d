"""Curves and the grouping of seeds, on records written by hand."""

from pathlib import Path
from typing import Any

import pytest

from fedamd.report.curves import Curve, Point, draw_curves, position, thinned
from fedamd.report.stored import StoredRun
from fedamd.runs.config import load_config
from fedamd.runs.records import Record


def stored(seed: int, accuracies: list[float | None], status: str = "finished", **algorithm: Any) -> StoredRun:
    config = load_config({"seed": seed, "algorithm": algorithm})
    records = [
        Record(
            t,
            metrics={"accuracy": accuracy, "test_loss": 1.0},
            costs={
                "gradient_samples": 100_000 * (t + 1) * (seed + 1),
                "bits_up": 32_000_000 * (t + 1),
                "bits_down": 32_000_000 * (t + 1),
            },
        )
        for t, accuracy in enumerate(accuracies, start=-1)
    ]
    return StoredRun(Path("run"), config, records, {}, {"status": status, "rounds": len(records) - 1})


def test_seeds_become_a_mean_between_the_smallest_and_the_largest() -> None:
    """After round 0 the seeds have 0.2 and 0.6: mean 0.4; gradients 10⁵ and 2·10⁵; 64 Mbit are 8 MB."""
    (curve,) = draw_curves([stored(0, [0.1, 0.2]), stored(1, [0.1, 0.6])])
    first, second = curve.points["accuracy"]
    assert curve.seeds == (0, 1)
    assert first.x == dict.fromkeys(("rounds", "gradients", "traffic", "paper_gradients", "paper_bits"), 0)
    assert second.x == {"rounds": 1, "gradients": 150_000, "traffic": 8e6, "paper_gradients": 1.5, "paper_bits": 2}
    assert (second.mean, second.low, second.high) == (pytest.approx(0.4), 0.2, 0.6)


def test_only_rounds_that_every_seed_measured() -> None:
    (curve,) = draw_curves([stored(0, [0.1, None, 0.3, 0.4]), stored(1, [0.1, 0.2, 0.3])])
    assert [point.x["rounds"] for point in curve.points["accuracy"]] == [0, 2]
    assert "loss" not in curve.points


def test_other_settings_are_another_curve() -> None:
    names = [curve.label for curve in draw_curves([stored(0, [0.1], p=0.5), stored(0, [0.1], p=0.9)])]
    assert names == ["fedamd p=0.5", "fedamd p=0.9"]


def test_divergence_is_in_the_title() -> None:
    (alone,) = draw_curves([stored(0, [0.1], status="diverged")])
    (some,) = draw_curves([stored(0, [0.1], status="diverged"), stored(1, [0.1])])
    assert alone.title == "fedamd (diverged)"
    assert some.title == "fedamd (1 diverged)"


def test_the_start_up_stands_at_zero() -> None:
    """Its record holds its own costs, which are in no total."""
    assert set(position(Record(-1, costs={"gradient_samples": 7, "bits_up": 7, "bits_down": 7})).values()) == {0.0}


def test_thinning_keeps_the_last_point() -> None:
    points = [Point({"rounds": float(t)}, t, t, t) for t in range(1, 11)]
    thin = thinned(Curve("a", (0,), 0, {"accuracy": points}), every=4)
    assert [point.mean for point in thin.points["accuracy"]] == [2, 6, 10]
