"""A sweep that was killed and resumed has, on a CPU, the bits of one that was not: in other stacks, in other chunks."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from fedamd.campaigns.grid import Grid
from fedamd.campaigns.sweep import SweepPlan, plan, sweep
from fedamd.oracles.native.oracle import NativeOracle

MIXED: dict[str, Any] = {  # clients from a handful of samples to hundreds
    "rounds": 6,
    "clients": 12,
    "cohort": 5,
    "checkpoint_every": 2,
    "partition": {"name": "dirichlet", "alpha": 0.2},
    "model": {"name": "mlp", "hidden": 7},
    "algorithm": {"steps": 3, "small_batch": 20, "large_batch": 90},
}
GRID = {"algorithm.eta_l": [0.1, 0.03], "algorithm.cache": ["server", "client"], "seed": [0, 1, 2]}


class Killed(BaseException):
    """Nothing may catch this: the process is gone."""


def hashes(planned: SweepPlan) -> dict[str, str]:
    """SHA-256 of every run's final model."""
    return {
        folder.name: hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
        for folder in planned.folders
    }


def records(folder: Path) -> list[dict[str, Any]]:
    """What was measured after every round, to the last digit; not how long it took."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [{key: line[key] for key in ("round", "loss", "metrics", "costs", "roles")} for line in lines]


def killed_after(records: int) -> Any:
    """Ends the process when so many records have been heard of: some runs have saved that round, others have not."""
    heard = 0

    def listen(*_: object) -> None:
        nonlocal heard
        heard += 1
        if heard == records:
            raise Killed

    return listen


def resumed_in_pieces(broken: SweepPlan, widths: tuple[int, ...]) -> None:
    """12 runs: killed in the midst of round 2, and twice with some runs a checkpoint ahead of others."""
    for records, samples_at_once in zip((12 + 29, 17, 19), widths, strict=True):
        with pytest.MonkeyPatch.context() as patch:
            if samples_at_once:
                patch.setattr(NativeOracle, "samples_at_once", samples_at_once)
            with pytest.raises(Killed):
                sweep(broken, killed_after(records))
    sweep(broken)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("changes", "widths"),
    [
        ({}, (64, 300, 5000)),  # the library's rows are exact whatever is beside them
        ({"engine": "loop", "oracle": "autograd"}, (0, 0, 0)),
        ({"engine": "vector", "oracle": "autograd"}, (0, 0, 0)),
        ({"engine": "vector", "oracle": "stacked"}, (0, 0, 0)),
    ],
    ids=["auto", "loop", "autograd", "stacked"],
)
def test_resumed_is_the_same_to_the_bit(changes: dict[str, Any], widths: tuple[int, ...], tmp_path: Path) -> None:
    whole = plan(MIXED, Grid(GRID), tmp_path / "whole", changes)
    sweep(whole)
    broken = plan(MIXED, Grid(GRID), tmp_path / "broken", changes)
    resumed_in_pieces(broken, widths)
    assert hashes(broken) == hashes(whole)
    assert [records(folder) for folder in broken.folders] == [records(folder) for folder in whole.folders]
    assert len(set(hashes(whole).values())) == 12
