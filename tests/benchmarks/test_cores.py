"""The benchmark of cores runs as printed, with tiny sizes on one core and in two processes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "cores.py"


@pytest.mark.slow
def test_processes_are_measured_beside_threads(tmp_path):
    told = tmp_path / "cores.json"
    subprocess.run(
        [sys.executable, str(SCRIPT), "--cores", "1", "2", "--turns", "1", "--tiny", "--json", str(told)], check=True
    )
    found = json.loads(told.read_text())
    shapes = [(1, 1), (2, 1), (2, 2)] if found["machine"]["cores"] > 1 else [(1, 1)]
    assert [(row["cores"], row["processes"]) for row in found["rounds"]] == shapes
    assert all(row["ms"] > 0 for row in found["rounds"])
