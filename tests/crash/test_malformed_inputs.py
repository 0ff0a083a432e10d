"""A few malformed inputs of every kind; thousands with `python -m crash malformed` (see docs/reliability.md)."""

import random

import pytest

from crash.inputs import KINDS
from crash.malformed import REFUSED


@pytest.mark.filterwarnings("ignore")  # what is said of a folder that is damaged
@pytest.mark.parametrize("kind", KINDS)
def test_malformed_input_is_understood_or_refused_in_words(kind, tmp_path):
    refused = 0
    for number in range(12):
        try:
            KINDS[kind](random.Random(f"test {kind} {number}"), tmp_path)
        except REFUSED:
            refused += 1
    assert refused > 0
