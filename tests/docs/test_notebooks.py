"""The notebooks, kept as text in Jupytext's percent format, run from their first cell to their last."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import PYTHONPATH

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(notebook: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, notebook],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": PYTHONPATH, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_a_notebook(notebook: Path) -> None:
    text = notebook.read_text(encoding="utf-8")
    assert "format_name: percent" in text
    assert text.count("# %%\n") >= 3
    assert "# %% [markdown]\n# # " in text
