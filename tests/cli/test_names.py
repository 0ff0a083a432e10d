"""Completed names are those that can really be given."""

from typing import get_args

import pytest

from fedamd.algorithms import ALGORITHMS
from fedamd.cli import names
from fedamd.data.fetch import REMOTES
from fedamd.engines import ENGINES
from fedamd.oracles.catalogue import ORACLES
from fedamd.runs.config import Config
from fedamd.theory import planner


@pytest.mark.parametrize(
    ("written", "real"),
    [
        (names.ALGORITHMS, ALGORITHMS),
        (names.FETCHED, REMOTES),
        (names.ENGINES, ("auto", *ENGINES)),
        (names.ENGINES, get_args(Config.model_fields["engine"].annotation)),
        (names.ORACLES, ("auto", *ORACLES)),
        (names.DEVICES, get_args(Config.model_fields["device"].annotation)),
        (names.COSTS, planner.COSTS),
    ],
)
def test_written_down_as_they_are(written, real):
    assert written == tuple(real)


def test_a_name_and_the_last_of_several():
    assert names.one_of(["cpu", "cuda"])("c") == ["cpu", "cuda"]
    assert names.one_of(["cpu", "cuda"])("cu") == ["cuda"]
    assert names.some_of(["fedamd", "fedavg", "mime"])("mime,fed") == ["mime,fedamd", "mime,fedavg"]
    assert names.some_of(["fedamd", "mime"])("m") == ["mime"]
    assert names.some_of(["fedamd", "mime"])("mime,x") == []
