"""The Triton kernel of stacked matrix products, on a GPU or in Triton's interpreter."""

from collections.abc import Callable
from types import ModuleType

import torch

Kernels = Callable[[str], ModuleType]


def test_products_with_starts_and_sums(kernels: Kernels, device: str) -> None:
    """Sizes that no tile divides, transposed factors, a result whose rows lie among other numbers."""
    product = kernels("triton_product").product
    torch.manual_seed(0)
    a, b = torch.randn(3, 45, 70, device=device).transpose(1, 2), torch.randn(3, 45, 33, device=device)
    start, sums = torch.randn(3, 70, device=device), torch.empty(3, 70, device=device)
    truth = a.double() @ b.double()
    torch.testing.assert_close(product(a, b, start=start).double(), truth + start.unsqueeze(2), rtol=0, atol=1e-4)
    among = torch.zeros(3, 70 * 33 + 9, device=device)
    product(a, b, among[:, 4:-5].view(3, 70, 33), sums=sums)
    torch.testing.assert_close(among[:, 4:-5].view(3, 70, 33).double(), truth, rtol=0, atol=1e-4)
    torch.testing.assert_close(sums.double(), a.double().sum(2), rtol=0, atol=1e-4)
    assert not among[:, :4].any()
    assert not among[:, -5:].any()


def test_a_product_is_the_same_in_any_stack(kernels: Kernels, device: str) -> None:
    product = kernels("triton_product").product
    torch.manual_seed(1)
    a, b = torch.randn(5, 20, 90, device=device), torch.randn(5, 90, 17, device=device)
    whole = product(a, b)
    for first in range(5):
        assert torch.equal(product(a[first:], b[first:]), whole[first:])
