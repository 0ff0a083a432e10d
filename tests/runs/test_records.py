"""Records tell roles, costs, metrics and extras apart by structure; flat lines of earlier versions are read alike."""

import json

import pytest

from fedamd.runs.records import COSTS, Record

RECORD = Record(
    round=3,
    loss=0.5,
    metrics={"test_loss": None, "accuracy": 0.75},
    roles={"anchor": 2, "1-step worker": 1},
    missing=1,
    rejected=0,
    costs={"gradient_samples": 30, "bits_up": 5, "bits_down": 6},
    extras={"absent": 1, "retries": 0, "wire_bits_up": 7, "wire_bits_down": 8},
    seconds=0.25,
)
FLAT = (
    '{"round": 3, "loss": 0.5, "test_loss": null, "accuracy": 0.75, "anchors": 2, "1-step workers": 1, "missing": 1, '
    '"rejected": 0, "gradient_samples": 30, "bits_up": 5, "bits_down": 6, "seconds": 0.25, "absent": 1, "retries": 0, '
    '"wire_bits_up": 7, "wire_bits_down": 8}'
)


def test_a_record_survives_json():
    assert Record.from_json(json.loads(json.dumps(RECORD.to_json()))) == RECORD


def test_a_flat_line_means_what_it_meant():
    """A federation's counts were keys beside the roles, and were drawn as if they were roles."""
    assert Record.from_json(json.loads(FLAT)) == RECORD


def test_what_is_asked_most():
    assert (RECORD.accuracy, RECORD.test_loss, RECORD.gradient_samples, RECORD.bits) == (0.75, None, 30, 11)
    assert [RECORD.measured(name) for name in ("loss", "accuracy", "f1")] == [0.5, 0.75, None]


@pytest.mark.parametrize("line", [3, {}, {"round": 1}, {"round": 1, "costs": {}, "colour": "red"}])
def test_anything_else_is_refused(line):
    with pytest.raises(ValueError, match="not the record of a round"):
        Record.from_json(line)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("round", -2),
        ("round", True),
        ("loss", "0.5"),
        ("loss", float("nan")),
        ("metrics", {"accuracy": []}),
        ("roles", {"miner": -1}),
        ("missing", None),
        ("costs", {"gradient_samples": 1}),
        ("costs", dict.fromkeys(COSTS, "1")),
        ("extras", []),
        ("clients", {"accuracy": {"values": ["x"]}}),
        ("seconds", None),
    ],
)
def test_a_line_that_tells_of_no_round_is_refused(name, value):
    whole = Record(round=3).to_json()
    assert Record.from_json(whole) == Record(round=3)
    with pytest.raises(ValueError, match=f"its {name} makes no sense"):
        Record.from_json(whole | {name: value})
