"""Every code block of every page runs, in the order of the page, in a folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.blocks import RUN, blocks
from support import PYTHONPATH

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUNNING = [page for page in PAGES if any(block.does_something for block in blocks(page))]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", RUNNING, ids=name)
def test_runs(page: Path, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("blocks.py"), page],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": PYTHONPATH, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_does_not_run_is_excused(page: Path) -> None:
    excuses = [block.excuse for block in blocks(page) if block.language in RUN and block.excuse is not None]
    assert all(len(excuse.split()) >= 2 for excuse in excuses)


def test_blocks_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '# A\n```toml title="a.toml"\nx = 1\n```\n<!-- not run: it is too long -->\n```python\nwait()\n```\n'
        "```console\n$ ls\nanswer\n```\n```\nplain\n```\n"
    )
    found = [(block.language, block.title, block.excuse, block.line) for block in blocks(page)]
    assert found == [("toml", "a.toml", None, 2), ("python", None, "it is too long", 6), ("console", None, None, 9)]


def test_a_page_that_fails_says_where(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n```bash\ncd /\n```\n```python\nassert x == 2\n```\n")
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("blocks.py"), page], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert f'{page}", line 8' in done.stderr
