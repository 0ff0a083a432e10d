"""One trajectory: a federation comes to the model the simulation comes to, for every algorithm."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from flower_support import Federation, config, same, simulate

from fedamd.algorithms import ALGORITHMS
from fedamd.errors import FedamdError
from fedamd.flower.app.wire import size

FEDAMDS: list[dict[str, Any]] = [
    {"p": 0.5},
    {"p": 0.5, "cache": "client"},
    {"tau": 2},
    {"tau": 2, "cache": "client"},
    {"pattern": "0,0,1", "cache": "client", "start_up": "lazy", "weights": "samples"},
]
MARINA = {"name": "vr-marina", "compressor": "rand-k", "fraction": 0.2}
QUANTISED = {"name": "pp-marina", "compressor": "quantise", "levels": 4}


@pytest.mark.parametrize("options", FEDAMDS, ids=json.dumps)
def test_fedamd(federation: Callable[..., Federation], options: dict[str, Any]) -> None:
    raw = config({"name": "fedamd", "steps": 3, "small_batch": 16} | options)
    assert same(federation(raw).lead(), simulate(raw))


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "fedamd"])
def test_every_other_algorithm(federation: Callable[..., Federation], name: str) -> None:
    raw = config({"name": name})
    assert same(federation(raw).lead(), simulate(raw))


@pytest.mark.parametrize("kind", ["", "bfloat16"])
@pytest.mark.parametrize("options", [MARINA, QUANTISED], ids=["rand-k", "quantise"])
def test_compressed_replies_travel_compressed_and_cost_in_the_ledger_what_they_cost_in_the_simulation(
    federation: Callable[..., Federation], options: dict[str, Any], kind: str
) -> None:
    """d = 7,510. Rand-k keeps k = 1,502 numbers, and tells the place of each in a byte; a quantiser of 4 levels counts
    4 bits for each of d and 32 more, and tells its 9 numbers, too. A reply has less than 300 bytes besides."""
    raw = config(options, model={"name": "mlp", "hidden": 100})
    one = federation(raw, wire_dtype=kind)
    run, reference = one.lead(), simulate(raw)
    counted, besides = (4 * 1502, 1502) if options is MARINA else (4 + 7510 // 2, 4 * 9)
    roles = {one.metadata.message_id: one.content["header"]["role"] for one in one.grid.instructions}
    sizes = [size(one.content) for one in one.grid.answers if roles[one.metadata.reply_to_message_id] == ":compress"]
    plain = len(one.grid.answers) - len(sizes)  # gradients of full rounds, which are rounded
    assert sizes
    assert max(sizes) < counted + besides + 300, "fewer where numbers that are sent are zeros"
    assert run.ledger.bits_up == reference.ledger.bits_up - (16 * 7510 * plain if kind else 0)
    if not kind:
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


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_vectors_of_half_the_bits_cost_half_in_ledger_and_wire_and_lead_to_nearly_the_same_model(
    federation: Callable[..., Federation], kind: str
) -> None:
    """bfloat16 has 8 bits of precision: one rounding of x changes it by at most 1/256 of itself."""
    raw = config({"name": "fedavg", "steps": 2, "small_batch": 16}, model={"name": "mlp", "hidden": 100})
    one = federation(raw, wire_dtype=kind)
    run, reference = one.lead(), simulate(raw)
    assert (2 * run.ledger.bits_up, 2 * run.ledger.bits_down) == (reference.ledger.bits_up, reference.ledger.bits_down)
    record = one.metrics()[3]
    assert record.costs["bits_up"] < record.extras["wire_bits_up"] < 1.2 * record.costs["bits_up"]
    assert record.costs["bits_down"] < record.extras["wire_bits_down"] < 1.2 * record.costs["bits_down"]
    away = (run.state.x - reference.state.x).norm() / reference.state.x.norm()
    assert 0 < away < 4 / 256
    assert run.state.x.dtype == reference.state.x.dtype


def test_what_clients_hold_is_not_rounded_behind_their_back(federation: Callable[..., Federation]) -> None:
    raw = config({"name": "fedamd", "p": 0.5, "cache": "client"})
    with pytest.raises(FedamdError, match="wire_dtype = bfloat16 rounds what is sent, but as anchor clients hold v"):
        federation(raw, wire_dtype="bfloat16").lead()
