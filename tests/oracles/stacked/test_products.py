"""The sizes of stacks, and products that are the same in all of them."""

import pytest
import torch

from fedamd.oracles.stacked import products


def test_parts_are_on_the_ladder_and_cover_the_stack():
    assert products.ladder()[:14] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24]
    for models in (1, 8, 9, 37, 1024, 2500):
        bounds = products.parts(models)
        assert [first for first, _ in bounds] == [0, *(last for _, last in bounds[:-1])]
        assert bounds[-1][1] == models
        assert all(last - first in products.ladder() for first, last in bounds)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the bits of a GPU's products need a GPU")
def test_a_product_has_the_same_bits_in_any_stack():
    a, b = torch.randn(300, 120, 256, device="cuda"), torch.randn(300, 256, 64, device="cuda")
    whole = products.product(a, b)
    for models in (1, 2, 9, 20, 137):
        assert torch.equal(products.product(a[:models], b[:models]), whole[:models])
