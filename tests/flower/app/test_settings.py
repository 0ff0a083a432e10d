"""The section [federation], and settings as Flower carries them."""

import pytest

from fedamd.errors import FedamdError
from fedamd.flower.app.settings import flatten, read_settings


def test_nested_settings_become_dotted_and_are_read_back() -> None:
    flat = flatten({"clients": 5, "algorithm": {"name": "fedamd", "tau": 3}, "federation": {"deadline": 7}})
    assert flat == {"clients": 5, "algorithm.name": "fedamd", "algorithm.tau": 3, "federation.deadline": 7}
    config, settings = read_settings(flat | {"cohort": 2})
    assert (config.clients, config.cohort, config.algorithm.options) == (5, 2, {"tau": 3})
    assert settings.deadline == 7


def test_a_federation_saves_every_round() -> None:
    assert read_settings({})[0].checkpoint_every == 1


@pytest.mark.parametrize(
    ("flat", "sentence"),
    [
        ({"federation.dedline": 5}, "federation.dedline: unknown key .did you mean deadline"),
        ({"federation.deadline": 0}, "federation.deadline: should be greater than 0, not 0"),
        ({"federation.min_replies": "all"}, "federation.min_replies"),
        ({"failure_rate": 0.1}, "failure_rate simulates"),
        ({"client_store": "disk"}, "client_store simulates"),
        ({"engine": "vector"}, "engine = vector simulates"),
        ({"checkpoint_every": 5}, "checkpoint_every must be 1"),
        ({"clients": 0}, "clients"),
    ],
)
def test_mistakes_are_sentences(flat: dict[str, object], sentence: str) -> None:
    with pytest.raises(FedamdError, match=sentence):
        read_settings(flat)


def test_lists_cannot_travel() -> None:
    with pytest.raises(FedamdError, match=r"algorithm\.pattern: .* write"):
        flatten({"algorithm": {"pattern": [0, 0, 1]}})


def test_names_in_lists_travel_as_words():
    flat = flatten({"metrics": ["f1", "auc"], "rounds": 2})
    assert flat == {"metrics": "f1,auc", "rounds": 2}
    assert read_settings(flat)[0].metrics == ("f1", "auc")


def test_defaults_are_of_their_types():
    settings = read_settings({})[1]
    for name, field in type(settings).model_fields.items():
        if field.annotation is float:
            assert isinstance(getattr(settings, name), float), name
