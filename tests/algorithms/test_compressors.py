"""Compressors: unbiased, with the variance they state, in the bits they state, on one vector or a stack of them."""

import math

import pytest
import torch

from fedamd.algorithms.compressors import Identity, Quantiser, RandK

V = torch.tensor([3.0, 0.0, -4.0, 12.0], dtype=torch.float64)  # ‖V‖ = 13
DRAWS = 40_000


def random_numbers(seed):
    generator = torch.Generator().manual_seed(seed)

    def uniforms(count):
        return torch.rand(DRAWS, count, dtype=torch.float64, generator=generator)

    return uniforms


@pytest.mark.parametrize(
    ("compressor", "omega"),
    [
        (Identity(), 0.0),
        (RandK(0.25), 3.0),  # k = 1: d/k − 1
        (RandK(0.5), 1.0),  # k = 2
        (Quantiser(1), 2.0),  # min(4/1, 2/1)
        (Quantiser(4), 0.25),  # min(4/16, 2/4)
    ],
)
def test_unbiased_with_the_stated_variance(compressor, omega):
    """The mean of 40,000 draws is within 5 standard errors of v, √(ω/40,000)·‖v‖ each; the variance is at most ω·‖v‖²,
    and equals it for rand-k."""
    sent = compressor(V.expand(DRAWS, 4), random_numbers(1)).vector
    error = (sent.mean(0) - V).norm()
    assert error <= 5 * math.sqrt(omega / DRAWS) * 13 + 1e-12
    variance = (sent - V).square().sum(-1).mean()
    assert variance <= omega * 169 * 1.02 + 1e-12
    if isinstance(compressor, RandK):
        assert variance >= omega * 169 * 0.98


def test_rand_k_keeps_k_coordinates_of_each_row():
    """Scores 0.1, 0.9, 0.2, 0.3 with k = 2: coordinates 0 and 2 stay, times d/k = 2. In the second row 1 and 3."""
    scores = torch.tensor([[0.1, 0.9, 0.2, 0.3], [0.5, 0.0, 0.9, 0.2]], dtype=torch.float64)
    sent = RandK(0.5)(V.expand(2, 4), lambda _: scores).vector
    assert sent.tolist() == [[6.0, 0.0, -8.0, 0.0], [0.0, 0.0, 0.0, 24.0]]
    assert torch.equal(RandK(0.5)(V, lambda _: scores[0]).vector, sent[0])


def test_quantiser_by_hand():
    """s = 2: |v|/‖v‖·2 = 6/13, 0, 8/13, 24/13. With every draw at 0.5: 6/13 → 0, 0 → 0, 8/13 → 1, 24/13 → 2, so
    13/2·(0, 0, −1, 2)."""
    sent = Quantiser(2)(V, lambda count: torch.full((count,), 0.5, dtype=torch.float64)).vector
    assert sent.tolist() == [0.0, 0.0, -6.5, 13.0]


def test_quantiser_of_zero_is_zero():
    zero = torch.zeros(3)
    assert torch.equal(Quantiser(4)(zero, lambda count: torch.full((count,), 0.3)).vector, zero)


@pytest.mark.parametrize(
    ("compressor", "bits"),
    [
        (Identity(), 1000 * 32),
        (RandK(0.01), 10 * 32),  # the places are known from the address
        (RandK(1e-6), 32),  # at least one
        (Quantiser(1), 32 + 1000 * 2),  # sign and one of two levels
        (Quantiser(4), 32 + 1000 * 4),  # sign and one of five levels: 3 bits
    ],
)
def test_bits(compressor, bits):
    assert compressor(torch.ones(1000), torch.rand).bits == bits
