"""Completed names are those that can really be given."""

from typing import get_args

import pytest

from fedamd.algorithms import ALGORITHMS
from fedamd.cli import keys, names
from fedamd.cli.listing import KINDS
from fedamd.data import PARTITIONERS, SOURCES
from fedamd.data.fetch import REMOTES
from fedamd.engines import ENGINES
from fedamd.models import MODELS
from fedamd.options import options_of
from fedamd.oracles.catalogue import ORACLES
from fedamd.participation import SAMPLERS
from fedamd.runs.config import Config, Stop
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


def test_every_kind_that_can_be_listed_is_completed():
    assert {kind: tuple(entries()) for kind, entries in KINDS.items()} == names.LISTED


def test_a_name_and_the_last_of_several():
    assert names.one_of(["cpu", "cuda"])("c") == ["cpu", "cuda"]
    assert names.one_of(["cpu", "cuda"])("cu") == ["cuda"]
    assert names.some_of(["fedamd", "fedavg", "mime"])("mime,fed") == ["mime,fedamd", "mime,fedavg"]
    assert names.some_of(["fedamd", "mime"])("m") == ["mime"]
    assert names.some_of(["fedamd", "mime"])("mime,x") == []


def test_keys_are_written_down_as_they_are():
    things = {
        "data": [source.read for source in SOURCES.values()],
        "partition": list(PARTITIONERS.values()),
        "model": [model.make for model in MODELS.values()],
        "algorithm": [method.make for method in ALGORITHMS.values()],
        "sampler": list(SAMPLERS.values()),
    }
    real = {
        section: dict.fromkeys(["name", *(option.name for make in makes for option in options_of(make))])
        for section, makes in things.items()
    } | {"stop": Stop.model_fields}
    assert {section: set(options) for section, options in keys.SECTIONS.items()} == {
        section: set(options) for section, options in real.items()
    }
    assert [name for name in Config.model_fields if name not in (*things, "schedules", "stop")] == keys.TOP


def test_keys_and_values_are_completed():
    assert keys.setting("algorithm.eta") == ["algorithm.eta_s=", "algorithm.eta_l="]
    assert keys.setting("algorithm.name=fedam") == ["algorithm.name=fedamd"]
    assert keys.setting("schedules.eta_l=co") == ["schedules.eta_l=constant", "schedules.eta_l=cosine"]
    assert "evaluate_clients_every=" in keys.setting("eval")
    assert keys.setting("rounds=") == []


def test_the_keys_of_a_federation_are_completed_for_its_runs_alone():
    settings = pytest.importorskip("fedamd.flower.app.settings", reason="needs Flower", exc_type=ImportError)
    assert list(settings.FederationSettings.model_fields) == keys.FEDERATION
    assert keys.federation_setting("federation.st") == ["federation.start_clients=", "federation.start_wait="]
    assert keys.federation_setting("ro") == keys.setting("ro") == ["rounds="]
    assert keys.federation_setting("federation.wire_dtype=b") == ["federation.wire_dtype=bfloat16"]
    assert keys.setting("federation.st") == []
