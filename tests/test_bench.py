"""The benchmark runs on every path and reports what it should; how fast is never asserted."""

from collections.abc import Callable

import pytest

from fedamd import bench as module
from fedamd.bench import METHODS, PHASES, bench


def test_what_is_far_from_the_fastest_is_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that the actions move: the base and what may be fastest take every turn, and only such can be it."""
    now = 0.0

    def taking(*seconds: float) -> Callable[[], None]:
        rest = iter(seconds)

        def action() -> None:
            nonlocal now
            now += next(rest)

        return action

    monkeypatch.setattr(module.time, "perf_counter", lambda: now)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    actions = {
        "plain loop": taking(9, 8, 7),
        "fast": taking(1, 4, 6),  # disturbed later on
        "near": taking(2, 5, 7),
        "far": taking(3),
    }
    taken = module._in_turns(actions, 2)
    assert taken == {"plain loop": [8, 7], "fast": [4, 6], "near": [5, 7], "far": [3]}
    assert module._fastest(taken) == "fast"


@pytest.mark.slow
@pytest.mark.usefixtures("library")
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
