"""Small real runs for the tests of everything that reads run folders."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedamd.runs.api import run

SMALL: dict[str, Any] = {
    "rounds": 4,
    "clients": 6,
    "cohort": 3,
    "model": {"name": "mlp", "hidden": 8},
    "algorithm": {"name": "fedamd", "p": 0.5, "steps": 2, "small_batch": 4},
}


@pytest.fixture
def trained(tmp_path: Path) -> Callable[..., Path]:
    """`trained("name", **{"algorithm.p": 0.9})`: the folder of a run of four rounds on digits."""

    def train(name: str, **changes: Any) -> Path:
        folder = run(SMALL, out=tmp_path / name, **changes).folder
        assert folder is not None
        return folder

    return train
