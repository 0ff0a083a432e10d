"""Power cuts, faults and damaged files, a few of each; thousands with `python -m crash` (see docs/reliability.md)."""

import json
import os
import subprocess
import sys

import pytest

from support import PYTHONPATH


def crash(kind: str, limit: int) -> dict:
    """The verdict of `python -m crash`, which has found nothing wrong."""
    told = subprocess.run(
        [sys.executable, "-m", "crash", kind, "--limit", str(limit)],
        env=os.environ | {"PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if told.returncode == 3:
        pytest.skip(told.stderr.strip())
    assert told.stderr == ""
    verdict = json.loads(told.stdout)
    assert verdict["wrong"] == []
    return verdict


@pytest.mark.slow
def test_power_cuts():
    verdict = crash("states", 300)
    assert verdict["states"] >= 200
    assert all(one["identical"] > 0 for one in verdict["workloads"].values())


@pytest.mark.slow
def test_faults_of_the_disk():
    assert crash("faults", 120)["faults"] == 120


@pytest.mark.slow
def test_kills():
    assert crash("kills", 40)["kills"] >= 40


@pytest.mark.slow
def test_damaged_files():
    assert crash("mutations", 201)["mutations"] == 201


@pytest.mark.slow
def test_malformed_inputs():
    assert crash("malformed", 660)["inputs"] == 660


@pytest.mark.slow
def test_races():
    assert crash("races", 18)["processes"] == 76
