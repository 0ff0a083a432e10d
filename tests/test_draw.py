"""Addressed randomness: the same bits in Python and in tensors, and draws that are what they claim to be."""

import math
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedamd import draw
from fedamd.draw import Purpose
from fedamd.oracles.native import batches

CPU = torch.device("cpu")
words = st.integers(-(2**63), 2**63 - 1)

# The first outputs of the published SplitMix64 generator seeded with 1234567.
SPLITMIX = (6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821)


def chi_square(counts: list[int], expected: float) -> float:
    return sum((count - expected) ** 2 / expected for count in counts)


def test_the_mixer_is_splitmix64():
    """The generator's n-th output is the mixer applied to seed + (n − 1)·0x9E37…15, which the mixer then adds once."""
    step = 0x9E3779B97F4A7C15
    assert tuple(draw._mix((1234567 + n * step) % 2**64) for n in range(5)) == SPLITMIX
    states = torch.tensor([draw._signed((1234567 + n * step) % 2**64) for n in range(5)])
    assert [value % 2**64 for value in draw._mixed(states).tolist()] == list(SPLITMIX)


@given(seed=st.integers(0, 2**63 - 1), purpose=st.sampled_from(Purpose), address=st.lists(words, max_size=4))
def test_python_and_tensors_agree_on_every_address(seed, purpose, address):
    for cut in range(len(address) + 1):
        beginning = draw.words([draw.bits(seed, purpose, *address[:cut])], CPU)
        continued = draw.keys(beginning, *(torch.tensor([part]) for part in address[cut:]))
        assert continued.item() % 2**64 == draw.bits(seed, purpose, *address)


def test_keys_broadcast_over_clients_and_batches():
    beginnings = draw.words([draw.bits(s, Purpose.BATCH, 3) for s in (0, 1)], CPU)
    made = draw.keys(beginnings.view(2, 1, 1), torch.arange(4).view(4, 1), torch.arange(5))
    assert made.shape == (2, 4, 5)
    assert made[1, 2, 3].item() % 2**64 == draw.bits(1, Purpose.BATCH, 3, 2, 3)


def test_seed_purpose_and_every_part_of_the_address_matter():
    seen = {
        draw.bits(seed, purpose, t, client)
        for seed in range(4)
        for purpose in Purpose
        for t in range(-1, 8)
        for client in range(16)
    }
    assert len(seen) == 4 * len(Purpose) * 9 * 16
    assert draw.bits(0, Purpose.COIN, 1, 2) != draw.bits(0, Purpose.COIN, 2, 1)


def test_uniform_is_uniform():
    """20,000 draws in 20 bins: chi-square has 19 degrees of freedom, above 43.8 with probability 0.001."""
    values = [draw.uniform(7, Purpose.COIN, t, client) for t in range(200) for client in range(100)]
    assert min(values) >= 0
    assert max(values) < 1
    assert chi_square([sum(int(v * 20) == bin_ for v in values) for bin_ in range(20)], 1000) < 43.8


def test_uniforms_are_multiples_of_two_to_minus_24_and_uniform():
    rows = draw.words([draw.bits(0, Purpose.NOISE, t) for t in range(100)], CPU)
    single = draw.uniforms(rows, 200, torch.float32)
    double = draw.uniforms(rows, 200, torch.float64)
    assert single.dtype == torch.float32
    assert single.shape == (100, 200)
    assert torch.equal(single.double(), double)  # float32 holds every one of them exactly
    assert torch.equal(double * 2**24, (double * 2**24).round())
    assert double.min() >= 0
    assert double.max() <= 1 - 2**-24
    counts = torch.histc(double, 20, 0, 1).tolist()
    assert chi_square(counts, 1000) < 43.8
    assert len(double.unique()) > 19_950  # of 20,000 out of 2^24: about 12 coincidences are expected


# --- sample ---


def test_sample_takes_every_subset_equally_often():
    """All 10 subsets of 2 of 5, 5,000 draws: 9 degrees of freedom, above 27.9 with probability 0.001."""
    drawn = [draw.sample(5, 2, 3, Purpose.COHORT, t) for t in range(5000)]
    assert chi_square([drawn.count(subset) for subset in combinations(range(5), 2)], 500) < 27.9


@given(population=st.integers(1, 200), data=st.data(), seed=st.integers(0, 2**62))
def test_sample_is_without_replacement_and_in_order(population, data, seed):
    count = data.draw(st.integers(0, population))
    drawn = draw.sample(population, count, seed, Purpose.COHORT, 0)
    assert list(drawn) == sorted(set(drawn))
    assert len(drawn) == count
    assert all(0 <= one < population for one in drawn)


def test_a_sample_of_a_billion_costs_what_it_draws(monkeypatch):
    calls = []
    mix = draw._mix
    monkeypatch.setattr(draw, "_mix", lambda word: calls.append(0) or mix(word))
    drawn = draw.sample(10**9, 50, 0, Purpose.COHORT, 0)
    assert len(set(drawn)) == 50
    assert 50 <= len(calls) <= 53  # one for each, and the beginning of their common address
    assert 0.3e9 < sum(drawn) / 50 < 0.7e9  # the mean of 50 uniforms: standard deviation 0.04e9


# --- positions ---


def naive_positions(row: int, size: int, count: int | None) -> list[int]:
    """The positions with the smallest scores; a score is the mixed word with its low bits given to the position."""
    if count is None or count >= size:
        return list(range(size))  # everything, in order: no scores are drawn
    low = (1 << size.bit_length()) - 1
    scores = {j: (draw._mix((row ^ j) % 2**64) & (2**63 - 1) & ~low) | j for j in range(size)}
    return sorted(scores, key=scores.__getitem__)[:count]


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("smallest", [draw.smallest, batches.smallest], ids=["PyTorch", "native"])
@settings(deadline=None)
@given(
    rows=st.lists(words, min_size=1, max_size=5),
    data=st.data(),
    count=st.one_of(st.none(), st.integers(1, 40)),
)
def test_positions_are_the_smallest_scores_of_each_row(smallest, rows, data, count):
    sizes = data.draw(st.lists(st.integers(1, 30), min_size=len(rows), max_size=len(rows)))
    position, real = draw.positions(torch.tensor(rows), sizes, count, smallest)
    width = max(sizes) if count is None else min(count, max(sizes))
    assert position.shape == real.shape == (len(rows), width)
    for row, size, found, is_real in zip(rows, sizes, position.tolist(), real.tolist(), strict=True):
        taken = min(width, size)
        assert is_real == [True] * taken + [False] * (width - taken)
        assert found[taken:] == [0] * (width - taken)
        assert found[:taken] == naive_positions(row, size, count)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("smallest", [draw.smallest, batches.smallest], ids=["PyTorch", "native"])
@pytest.mark.parametrize("count", [6, 25, None])
def test_positions_do_not_depend_on_the_company_of_a_row(smallest, count):
    """A client's batch is the same list alone and stacked with smaller and larger clients."""
    keys = draw.keys(draw.words([draw.bits(0, Purpose.BATCH, 0)], CPU), torch.arange(5))
    sizes = [20, 9, 31, 600, 25]
    stacked, real = draw.positions(keys, sizes, count, smallest)
    for row, size in enumerate(sizes):
        alone, _ = draw.positions(keys[row : row + 1], [size], count, smallest)
        assert stacked[row][real[row]].tolist() == alone[0].tolist()


def test_every_batch_is_equally_likely():
    """All 10 pairs of 5 positions over 4,000 keys: above 27.9 with probability 0.001."""
    rows = draw.keys(draw.words([draw.bits(5, Purpose.BATCH, 0)], CPU), torch.arange(4000))
    position, _ = draw.positions(rows, [5] * 4000, 2)
    drawn = [tuple(sorted(pair)) for pair in position.tolist()]
    assert chi_square([drawn.count(pair) for pair in combinations(range(5), 2)], 400) < 27.9


@pytest.mark.parametrize("size", [1, 2, 4, 8, 600])
def test_a_position_at_a_power_of_two_is_kept_apart_from_padding(size):
    position, real = draw.positions(torch.arange(64), [size] * 63 + [size + 1], None)
    assert real.sum(-1).tolist() == [size] * 63 + [size + 1]
    assert all(sorted(row[:size]) == list(range(size)) for row in position[:63].tolist())
    assert math.isclose(position[-1].sum().item(), size * (size + 1) / 2)
