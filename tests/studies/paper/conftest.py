"""Tests of the reproduction: `from paper_support import …` for experiments and outcomes made by hand."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for paper_support
