"""Products that are the same in stacks of all sizes."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor

from fedamd.oracles.stacked import products

Kernels = Callable[[str], ModuleType]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the bits of a GPU's products need a GPU")
def test_a_product_has_the_same_bits_in_any_stack():
    a, b = torch.randn(300, 120, 256, device="cuda"), torch.randn(300, 256, 64, device="cuda")
    whole = products.product(a, b)
    for models in (1, 2, 9, 20, 137):
        assert torch.equal(products.product(a[:models], b[:models]), whole[:models])


@pytest.mark.parametrize("with_kernels", [False, True])
def test_relu_comes_with_a_product_and_back_through_it(
    with_kernels: bool, kernels: Kernels, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers are whole, so that all sums are exact. Where ReLU gave NaN the gradient passes, as in PyTorch."""
    kernels("triton_product")
    monkeypatch.setattr(products, "has_kernels", lambda _: with_kernels)

    def drawn(*shape: int) -> Tensor:
        return torch.randint(-3, 4, shape, device=device).float()

    torch.manual_seed(0)
    weight, inputs, bias, upstream = drawn(2, 20, 18), drawn(2, 18, 17), drawn(2, 20, 1), drawn(2, 20, 17)
    outputs = weight @ inputs + bias
    assert torch.equal(products.product(weight, inputs, bias), outputs)
    assert torch.equal(products.product(weight, inputs, bias, rectified=True), outputs.clamp(min=0))
    gate = drawn(2, 18, 17)
    gate[0, 0, :5] = torch.nan
    back = weight.transpose(1, 2) @ upstream
    assert torch.equal(products.product(weight.transpose(1, 2), upstream, gate=gate), back.masked_fill(gate <= 0, 0))
    inputs[1, 3, 16] = torch.nan  # a diverged model shows
    assert products.product(weight, inputs, bias, rectified=True).isnan().nonzero()[:, ::2].unique(dim=0).tolist() == [
        [1, 16]
    ]
