"""Clients that come and go."""

from pathlib import Path

import pytest

from fedamd.draw import Purpose, uniform
from fedamd.errors import FedamdError
from fedamd.participation import MarkovSampler, TraceSampler


@pytest.mark.parametrize(("leaves", "comes"), [(0.1, 0.3), (0.8, 0.7)])
def test_the_chain_is_the_one_a_walk_from_round_0_gives(leaves: float, comes: float) -> None:
    """Looking back must find what stepping forward with the same numbers finds (also where they make a client swap)."""
    sampler = MarkovSampler(leaves=leaves, comes=comes)
    for client in range(20):
        there = uniform(4, Purpose.AVAILABILITY, 0, client) < comes / (comes + leaves)
        for t in range(1, 40):
            u = uniform(4, Purpose.AVAILABILITY, t, client)
            there = u < 1 - leaves if there else u < comes
            assert sampler.reachable(t, 4, client) == there


def test_clients_are_there_their_share_of_the_time() -> None:
    """comes/(comes + leaves) = 0.75; 200 clients × 50 rounds, correlated over about 1/(0.4) rounds."""
    sampler = MarkovSampler(leaves=0.1, comes=0.3)
    there = [sampler.reachable(t, 0, client) for t in range(50) for client in range(200)]
    assert sum(there) / len(there) == pytest.approx(0.75, abs=0.03)


def test_the_cohort_is_of_those_who_are_there() -> None:
    sampler = MarkovSampler(leaves=0.5, comes=0.5)
    for t in range(20):
        there = {client for client in range(12) if sampler.reachable(t, 1, client)}
        cohort = sampler.cohort(t, 1, 5, [1] * 12)
        assert set(cohort) <= there
        assert len(cohort) == min(5, len(there))


def test_everyone_is_there_at_the_start_up() -> None:
    assert all(MarkovSampler(leaves=1.0, comes=0.1).reachable(-1, 0, client) for client in range(50))


@pytest.mark.parametrize(("options", "name"), [({"leaves": 1.5}, "leaves"), ({"comes": 0.0}, "comes")])
def test_probabilities_are_checked(options: dict[str, float], name: str) -> None:
    with pytest.raises(FedamdError, match=f"{name} must be a probability"):
        MarkovSampler(**options)


def test_a_trace_says_who_is_there(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("client,from,to\n0,0,2\n2,1,4\n0,3,4\n")
    sampler = TraceSampler(str(path))
    assert [sampler.cohort(t, 0, 5, [1] * 3) for t in range(5)] == [(0,), (0, 2), (2,), (0, 2), ()]
    assert [sampler.reachable(-1, 0, client) for client in range(3)] == [True, False, True]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("client,from,to\n7,0,2\n", "names client 7, but the clients are 0 … 2"),
        ("client,from\n0,1\n", "the first line must name the columns client, from, to"),
        ("client,from,to\n0,x,2\n", "line 2: client, from and to must be whole numbers"),
        ("client,from,to\n0,2,2\n", r"line 2: from \(2\) must be below to \(2\)"),
        ("client,from,to\n0,2\n", "line 2: expected 3 values"),
    ],
)
def test_a_bad_trace_is_refused_in_words(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(FedamdError, match=sentence):
        TraceSampler(str(path)).cohort(0, 0, 2, [1] * 3)


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(FedamdError, match=r"there is no file .*nowhere\.csv"):
        TraceSampler(str(tmp_path / "nowhere.csv")).cohort(0, 0, 2, [1] * 3)
