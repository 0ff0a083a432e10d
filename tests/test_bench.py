"""The benchmark runs on every path and reports what it should; how fast is never asserted."""

import pytest

from fedamd.bench import METHODS, PHASES, bench

pytestmark = pytest.mark.usefixtures("library")


@pytest.mark.slow
def test_every_path_is_timed_in_every_phase():
    said: list[str] = []
    result = bench("mlp", repetitions=1, announce=said.append)
    paths = {"plain loop", "native", "loop + autograd", "vmap"}
    for kind, columns in (("seconds", PHASES), ("rounds", METHODS)):
        assert result[kind].keys() == paths
        assert all(set(columns) == times.keys() and min(times.values()) > 0 for times in result[kind].values())
    assert result["ratios"].keys() == set(PHASES)
    for phase, path in result["fastest"].items():
        taken = {name: times[phase] for name, times in result["seconds"].items()}
        assert taken[path] == min(taken.values())
        assert result["ratios"][phase] == pytest.approx(taken["plain loop"] / taken[path])  # one turn: its own median
    plain = result["seconds"]["plain loop"]
    alternating = (plain["anchors"] + plain["miners"]) / 2 + plain["evaluation"]
    assert result["rounds"]["plain loop"]["FedAMD (sequential)"] == pytest.approx(alternating)
    assert said == [f"mlp: {phase}" for phase in PHASES] + [f"mlp: rounds of {method}" for method in METHODS]
