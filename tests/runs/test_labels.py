"""Names that tell runs apart."""

from typing import Any

import pytest

from fedamd.runs.config import load_config
from fedamd.runs.labels import labels

COSINE, STEP = {"name": "cosine", "rounds": 20}, {"name": "step", "every": 10}


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([{}, {"algorithm": {"name": "fedavg"}}], ["fedamd", "fedavg"]),
        ([{"seed": 1}, {"seed": 2, "engine": "loop"}], ["fedamd", "fedamd"]),
        ([{"algorithm": {"p": 0.5}}, {"algorithm": {"p": 0.9, "eta_l": 0.03}}], ["fedamd p=0.5", "fedamd p=0.9"]),
        ([{"algorithm": {"tau": 2}}, {"algorithm": {"p": 0.9}}], ["fedamd tau=2", "fedamd p=0.9"]),
        (
            [{"rounds": 5}, {"rounds": 6}, {"algorithm": {"name": "fedavg"}}],
            ["fedamd rounds=5", "fedamd rounds=6", "fedavg"],
        ),
        (  # a hundredth of 0.03 at the end of a cosine, and two drops to a tenth in 21 rounds
            [{"rounds": 21} | one for one in ({}, {"schedules": {"eta_l": COSINE}}, {"schedules": {"eta_l": STEP}})],
            ["fedamd", "fedamd eta_l cosine 0.03→0.0003", "fedamd eta_l step 0.03→0.0003"],
        ),
        (  # they begin and end alike
            [{"rounds": 21, "schedules": {"eta_l": one}} for one in (STEP, STEP | {"every": 9})],
            ["fedamd eta_l=0.03 step(every=10)", "fedamd eta_l=0.03 step(every=9)"],
        ),
        (
            [{}, {"partition": {"name": "iid"}, "sampler": {"name": "markov", "leaves": 0.2}}],
            ["fedamd partition=classes", "fedamd partition=iid leaves=0.2 sampler=markov"],
        ),
    ],
)
def test_labels(sources: list[dict[str, Any]], expected: list[str]) -> None:
    assert labels([load_config(source) for source in sources]) == expected
