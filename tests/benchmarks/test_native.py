"""The benchmarks of the native oracle run as printed, for moments."""

import subprocess
import sys
from pathlib import Path

import pytest

from fedamd.oracles import native

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def told(script: str, *words: str) -> list[str]:
    if reason := native.available():
        pytest.skip(reason)
    command = [sys.executable, str(BENCHMARKS / script), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.slow
def test_gradients_are_timed_on_four_networks():
    rows = [line.split("|") for line in told("gradients.py", "--seconds", "0.05") if " ms |" in line]
    assert [row[1].strip() for row in rows] == ["lenet5 (W)", "blazefl", "pfl", "flute-femnist"]
    assert all(0 < float(least.split()[0]) <= float(middle.split()[0]) for _, _, _, least, middle, *_ in rows)


@pytest.mark.slow
def test_what_of_a_round_is_not_gradients_is_a_share_of_it():
    rows = told("overhead.py", "--model", "mlp", "--rounds", "4")
    assert [line.split("  ")[0] for line in rows] == ["FedAvg", "FedAMD (constant)", "FedAMD (sequential)"]
    loops = [float(line.split("the loop")[1].split("%")[0]) for line in rows]
    assert all(0 < share < 100 for share in loops)
