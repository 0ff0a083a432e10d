"""Several processes at one folder, each race once; many with `python -m crash races` (see docs/reliability.md)."""

import random
import sys
from collections import Counter

import pytest

from crash.races import FINE, RACES, REFUSAL, expected, run_race


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forks of a process with threads
@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked, and folders are locked")
@pytest.mark.parametrize("name", RACES)
def test_one_wins_and_the_folder_is_whole(name, tmp_path):
    race, count = RACES[name], Counter()
    truth = expected(race, tmp_path / "whole")
    assert run_race(race, tmp_path / "race", truth, random.Random(name), count) == []
    assert count[FINE] + count[REFUSAL] == len(race.racers)
