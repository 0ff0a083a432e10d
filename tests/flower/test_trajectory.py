"""One trajectory: a federation comes to the model the simulation comes to, for every algorithm."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from flower_support import Federation, config, same, simulate

from fedamd.algorithms import ALGORITHMS

FEDAMDS: list[dict[str, Any]] = [
    {"p": 0.5},
    {"p": 0.5, "cache": "client"},
    {"tau": 2},
    {"tau": 2, "cache": "client"},
    {"pattern": "0,0,1", "cache": "client", "start_up": "lazy", "weights": "samples"},
]
MARINA = {"name": "vr-marina", "compressor": "rand-k", "fraction": 0.2}


@pytest.mark.parametrize("options", FEDAMDS, ids=json.dumps)
def test_fedamd(federation: Callable[..., Federation], options: dict[str, Any]) -> None:
    raw = config({"name": "fedamd", "steps": 3, "small_batch": 16} | options)
    assert same(federation(raw).lead(), simulate(raw))


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "fedamd"])
def test_every_other_algorithm(federation: Callable[..., Federation], name: str) -> None:
    raw = config({"name": name})
    assert same(federation(raw).lead(), simulate(raw))


def test_compressed_replies_cost_in_the_ledger_what_they_cost_in_the_simulation(
    federation: Callable[..., Federation],
) -> None:
    raw = config(MARINA)
    run, reference = federation(raw).lead(), simulate(raw)
    assert same(run, reference)
    assert run.ledger == reference.ledger
    assert run.start_up == reference.start_up


def test_the_records_are_those_of_the_simulation_and_the_bits_on_the_wire_beside_them(
    federation: Callable[..., Federation],
) -> None:
    """softmax on 8 × 8 digits has d = 650 parameters, 20,800 bits; what else a message carries is less."""
    raw = config()
    one = federation(raw)
    one.lead()
    for record, expected in zip(one.metrics().values(), simulate(raw).records, strict=True):
        plain, wanted = record.to_json(), expected.to_json()
        for key in wanted.keys() - {"seconds", "extras"}:
            assert plain[key] == pytest.approx(wanted[key], abs=1e-6)
        for way in ("up", "down"):
            ledger, wire = record.costs[f"bits_{way}"], record.extras[f"wire_bits_{way}"]
            assert ledger < wire < 2 * ledger
