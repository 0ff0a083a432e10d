"""Eigenvalues of matrices that are known."""

import pytest
import torch

from fedamd.theory.lanczos import extreme_eigenpairs


def matrix(eigenvalues: torch.Tensor, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(len(eigenvalues), len(eigenvalues), generator=generator, dtype=torch.float64)).Q
    return basis @ torch.diag(eigenvalues) @ basis.T


def start(d: int) -> torch.Tensor:
    return torch.randn(d, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def test_both_ends_exactly_once_the_space_is_exhausted() -> None:
    H = matrix(torch.tensor([-3.0, 0.1, 1.0, 2.0, 7.0], dtype=torch.float64))
    low, high = extreme_eigenpairs(lambda v: H @ v, start(5), 50)
    assert low.value == pytest.approx(-3.0, abs=1e-12)
    assert high.value == pytest.approx(7.0, abs=1e-12)
    assert max(low.residual, high.residual) < 1e-12
    assert torch.allclose(H @ high.vector, 7.0 * high.vector)


@pytest.mark.parametrize("products", [1, 3, 8, 20])
def test_some_eigenvalue_lies_within_the_residual(products: int) -> None:
    eigenvalues = torch.linspace(0, 5, 60, dtype=torch.float64) ** 2
    H = matrix(eigenvalues)
    for pair in extreme_eigenpairs(lambda v: H @ v, start(60), products):
        assert (eigenvalues - pair.value).abs().min() <= pair.residual + 1e-12
    assert pair.value <= 25 + 1e-12


def test_products_are_counted_and_used_well() -> None:
    """A gap of a factor two at the top: twenty products leave nothing to find."""
    eigenvalues = torch.cat([torch.linspace(0, 1, 199, dtype=torch.float64), torch.tensor([2.0], dtype=torch.float64)])
    H, calls = matrix(eigenvalues), 0

    def apply(v: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return H @ v

    _, high = extreme_eigenpairs(apply, start(200), 20)
    assert calls == 20
    assert high.value == pytest.approx(2.0, rel=1e-10)


def test_an_operator_that_is_zero() -> None:
    low, high = extreme_eigenpairs(torch.zeros_like, start(4), 10)
    assert (low.value, high.value, high.residual) == (0.0, 0.0, 0.0)
