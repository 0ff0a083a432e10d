"""The benchmark of tuning's time runs as printed, with tiny sizes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("optuna", reason="tuning needs Optuna, of the extra tune")
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "tuning_time.py"


@pytest.mark.slow
def test_a_tuning_is_timed(tmp_path):
    told = tmp_path / "tuning.json"
    subprocess.run([sys.executable, str(SCRIPT), "--tiny", "--trials", "3", "--json", str(told)], check=True)
    found = json.loads(told.read_text())
    assert found["trials"] == 3
    assert found["rounds"] == 3 * 1 + 1 * 2 + 1 * 6  # after one of nine rounds one in three goes on, to 3 and to 9
    assert found["seconds"] > 0
