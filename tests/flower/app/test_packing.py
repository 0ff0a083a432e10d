"""Vectors in few bytes: what comes out is what went in, and bytes that are no vector are refused."""

import numpy as np
import pytest
import torch

from fedamd.algorithms.compressors import Quantiser, RandK
from fedamd.flower.app.packing import PALETTE, RAW, SPARSE, pack, unpack

FLOAT = np.dtype("<f4")


def numbers(*values: float) -> np.ndarray:
    return np.array(values, FLOAT)


@pytest.mark.parametrize("kind", ["<f2", "<i2", "<f4", "<f8"])
@pytest.mark.parametrize(
    "values",
    [[], [0], [7], [0, 0, 0, 5], [5, 0, 0, 0], list(range(50)), [0] * 300 + [1], [0] * 70_000 + [3], [1, 2] * 40],
    ids=lambda values: f"{len(values)} numbers",
)
def test_what_was_packed_comes_out(values: list[int], kind: str) -> None:
    vector = np.array(values).astype(kind)
    way, data = pack(vector)
    assert len(data) <= vector.nbytes
    assert np.array_equal(unpack(way, data, len(vector), vector.dtype), vector)


def test_a_dense_vector_stays_as_it_is() -> None:
    vector = np.random.default_rng(0).normal(size=1000).astype(FLOAT)
    assert pack(vector) == (RAW, vector.tobytes())


def test_rand_k_costs_its_numbers_and_a_byte_for_each() -> None:
    """d = 5,000 and k = 500: 500 numbers of 4 bytes, as the compressor counts, 500 gaps, and their width."""
    vector, draws = torch.randn(5000, generator=torch.Generator().manual_seed(1)), torch.rand(5000)
    chosen = RandK(0.1)(vector, lambda _: draws)
    way, data = pack(chosen.vector.numpy())
    assert (way, len(data)) == (SPARSE, 1 + 500 * (4 + 1))
    assert chosen.bits == 500 * 32
    assert torch.equal(torch.from_numpy(unpack(way, data, 5000, FLOAT)), chosen.vector)


@pytest.mark.parametrize("levels", [4, 15])
def test_a_quantiser_costs_the_bits_it_counts_and_its_table(levels: int) -> None:
    """s levels and a sign: at most 2s + 1 numbers. In d = 8,000, a bit for each place is 1,000 bytes."""
    vector, draws = torch.randn(8000, generator=torch.Generator().manual_seed(1)), torch.rand(8000)
    rounded = Quantiser(levels)(vector, lambda _: draws)
    way, data = pack(rounded.vector.numpy())
    table = 4 * len(rounded.vector.unique())
    planes = (len(rounded.vector.unique()) - 1).bit_length()
    if way == PALETTE:
        assert len(data) == 4 + table + planes * 1000
    assert 8 * len(data) <= rounded.bits + 32 * (2 * levels + 1)
    assert torch.equal(torch.from_numpy(unpack(way, data, 8000, FLOAT)), rounded.vector)


def test_a_sign_is_lost_of_zeros_only() -> None:
    vector = numbers(*[-0.0, 0.0, -2.0, 2.0] * 50)
    way, data = pack(vector)
    assert way == PALETTE
    assert data[:4] == b"\3\0\0\0", "-2, 0 and 2"
    assert np.array_equal(unpack(way, data, 200, FLOAT), vector)


SPARSE_ONE = b"\1\5" + numbers(3.0).tobytes()  # a 3 after five zeros
PALETTE_OF_THREE = b"\3\0\0\0" + numbers(1.0, 2.0, 3.0).tobytes() + b"\x80\x40"  # 8 places: the second bit, the third …


def test_the_examples_of_bad_bytes_are_good_before_they_are_spoilt() -> None:
    assert unpack(SPARSE, SPARSE_ONE, 6, FLOAT).tolist() == [0, 0, 0, 0, 0, 3]
    assert unpack(PALETTE, PALETTE_OF_THREE, 8, FLOAT).tolist() == [2, 3, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("way", "data", "count", "says"),
    [
        ("pickle", b"", 0, "written as pickle"),
        (RAW, bytes(7), 2, "7 bytes for 2 numbers"),
        (SPARSE, b"", 6, "no width"),
        (SPARSE, b"\3" + SPARSE_ONE[1:], 6, "no width"),
        (SPARSE, SPARSE_ONE[:-1], 6, "of 5 bytes for 6 numbers"),
        (SPARSE, SPARSE_ONE, 5, "at place 5 of 5"),
        (SPARSE, SPARSE_ONE, 0, "for 0 numbers"),
        (SPARSE, b"\4" + b"\xff" * 32, 4, "at place 4294967295 of 4|at place 17179869183 of 4"),
        (PALETTE, b"\1\0", 8, "without colours"),
        (PALETTE, bytes(4), 0, "without colours"),
        (PALETTE, b"\xff\xff\xff\xff", 8, "too many"),
        (PALETTE, PALETTE_OF_THREE[:-1], 8, "for 8 numbers of a palette of 3"),
        (PALETTE, PALETTE_OF_THREE, 9, "for 9 numbers of a palette of 3"),
        (PALETTE, PALETTE_OF_THREE[:-2] + b"\x80\x80", 8, "colour 3 of a palette of 3"),
    ],
)
def test_what_is_no_vector_is_refused(way: str, data: bytes, count: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        unpack(way, data, count, FLOAT)


def test_any_bytes_are_a_vector_of_the_right_length_or_refused() -> None:
    random = np.random.default_rng(0)
    for way in (RAW, SPARSE, PALETTE):
        for _ in range(300):
            data = bytearray(pack(random.integers(0, 3, 40).astype(FLOAT))[1] if random.random() < 0.5 else b"")
            data += random.bytes(random.integers(0, 9))
            if data:
                data[random.integers(len(data))] = random.integers(256)
            try:
                found = unpack(way, bytes(data), 40, FLOAT)
            except ValueError:
                continue
            assert found.shape == (40,)
            assert found.dtype == FLOAT
