"""A board of two methods on the digits, small enough for a test."""

from pathlib import Path

import pytest

SETTING = """
title = "Digits, small"
targets = [0.1, 0.5, 0.99]
trials = 3
rungs = [1, 2]
tuning_seeds = [101, 102]
seeds = [1, 2]
devices = { samples_per_second = 100, mbit_up = 1, mbit_down = 1 }

[run]
clients = 10
cohort = 3
evaluate_every = 1
data = { name = "digits" }
model = { name = "softmax" }

[method]
steps = 2
small_batch = 8
"""


@pytest.fixture
def board(tmp_path: Path) -> Path:
    folder = tmp_path / "board"
    folder.mkdir()
    (folder / "small.toml").write_text(SETTING, encoding="utf-8")
    (folder / "methods.toml").write_text("fedavg = {}\nfedcm = {}\n", encoding="utf-8")
    return folder
