"""The proof by trial that whenever an assignment exists, one is found, and that what is refused does not exist."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedamd.data.classes_per_client import apportion, assign_pieces
from fedamd.data.seeding import generator
from fedamd.errors import FedamdError


def exists(counts, clients, k):
    """By Gale and Ryser: every class in 1 … min(M, n_c) pieces, M·k in all."""
    return k <= len(counts) <= clients * k <= sum(min(clients, count) for count in counts)


@settings(max_examples=300, deadline=None)
@given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=12),
    clients=st.integers(1, 40),
    k=st.integers(1, 13),
    seed=st.integers(0, 2**32),
)
def test_every_client_gets_exactly_k_distinct_classes(counts, clients, k, seed):
    rng = generator(seed)
    if not exists(counts, clients, k):
        with pytest.raises(FedamdError):
            apportion(counts, clients, k, rng)
        return
    pieces = apportion(counts, clients, k, rng)
    assert sum(pieces) == clients * k
    assert all(1 <= piece <= min(clients, count) for piece, count in zip(pieces, counts, strict=True))
    holders = assign_pieces(pieces, clients, k, rng)
    assert [len(set(chosen.tolist())) for chosen in holders] == pieces
    assert np.bincount(np.concatenate(holders), minlength=clients).tolist() == [k] * clients


def test_larger_classes_are_cut_into_more_pieces():
    """60, 30 and 30 samples in 4 pieces: only the class of 60 is cut, and all pieces are 30."""
    assert apportion([60, 30, 30], clients=4, k=1, rng=generator(0)) == [2, 1, 1]


def test_chance_decides_between_equal_classes():
    outcomes = {tuple(apportion([5, 5, 5], clients=4, k=1, rng=generator(seed))) for seed in range(30)}
    assert outcomes == {(2, 1, 1), (1, 2, 1), (1, 1, 2)}


def test_pairs_of_classes_are_random():
    """With 10 classes there are 45 pairs; 100 clients drawing at random meet most of them."""
    holders = assign_pieces([20] * 10, clients=100, k=2, rng=generator(0))
    held = [frozenset(label for label in range(10) if m in holders[label]) for m in range(100)]
    assert len(set(held)) > 30


@pytest.mark.parametrize(
    ("counts", "clients", "k", "complaint"),
    [
        ([5, 5], 3, 3, "classes_per_client is 3, but the data has samples of 2 classes only"),
        ([5] * 10, 4, 2, "at least 5 clients, or classes_per_client of at least 3"),
        ([2, 9], 4, 2, "need 8 pieces of classes, but the samples make 6 at most; .* use at most 2 clients"),
    ],
)
def test_the_refusal_says_what_would_work(counts, clients, k, complaint):
    with pytest.raises(FedamdError, match=complaint):
        apportion(counts, clients, k, generator(0))
    if "use at most" in complaint:
        assert sum(apportion(counts, 2, k, generator(0))) == 4
