"""Products that are the same in stacks of all sizes."""

import pytest
import torch

from fedamd.oracles.stacked import products


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the bits of a GPU's products need a GPU")
def test_a_product_has_the_same_bits_in_any_stack():
    a, b = torch.randn(300, 120, 256, device="cuda"), torch.randn(300, 256, 64, device="cuda")
    whole = products.product(a, b)
    for models in (1, 2, 9, 20, 137):
        assert torch.equal(products.product(a[:models], b[:models]), whole[:models])
