"""The Triton kernels that gather inputs and compute losses, on a GPU or in Triton's interpreter."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch.nn import functional

Kernels = Callable[[str], ModuleType]  # from the name of a module of kernels


def test_gathered_samples_have_the_batch_last(kernels: Kernels, device: str) -> None:
    rows = torch.randn(9, 2, 5, 7, device=device)
    samples = torch.randint(9, (3, 35), device=device)
    gathered = kernels("triton_samples").gather(rows, samples)
    assert torch.equal(gathered, rows[samples].movedim(1, -1))


@pytest.mark.parametrize(("classes", "batch"), [(3, 5), (10, 150), (4, 16)])
def test_losses_and_gradients_are_those_of_cross_entropy(
    kernels: Kernels, device: str, classes: int, batch: int
) -> None:
    """Four models on two batches, against autograd in float64."""
    torch.manual_seed(0)
    logits = 5 * torch.randn(4, classes, batch)
    targets, samples = torch.randint(classes, (30,)), torch.randint(30, (2, batch))
    weights = torch.rand(2, batch)
    exact = logits.double().requires_grad_()
    own = targets[samples].repeat(2, 1)
    truth = (functional.cross_entropy(exact, own, reduction="none") * weights.double().repeat(2, 1)).sum(1)
    truth.sum().backward()
    losses, gradient = kernels("triton_samples").cross_entropy(
        *(values.to(device) for values in (logits, targets, samples, weights))
    )
    torch.testing.assert_close(losses.cpu().double(), truth.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gradient.cpu().double(), exact.grad, rtol=1e-5, atol=1e-6)


def test_logits_that_are_not_numbers_show(kernels: Kernels, device: str) -> None:
    logits = torch.randn(2, 3, 4, device=device)
    logits[0, 1, 2] = torch.nan
    targets, samples = torch.zeros(4, dtype=torch.int64, device=device), torch.arange(4, device=device)[None]
    losses, _ = kernels("triton_samples").cross_entropy(logits, targets, samples, torch.ones(1, 4, device=device))
    assert losses.isnan().tolist() == [True, False]
