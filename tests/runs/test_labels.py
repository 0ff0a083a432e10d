"""Names that tell runs apart."""

from typing import Any

import pytest

from fedamd.runs.config import load_config
from fedamd.runs.labels import labels


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
    ],
)
def test_labels(sources: list[dict[str, Any]], expected: list[str]) -> None:
    assert labels([load_config(source) for source in sources]) == expected
