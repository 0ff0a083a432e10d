"""The Triton kernels of group normalisation against PyTorch's, on a GPU or in Triton's interpreter."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch.nn.functional import group_norm

Kernels = Callable[[str], ModuleType]


@pytest.mark.parametrize("shape", [(2, 6, 3, 2, 5), (1, 4, 20, 15, 11), (3, 2, 2)])
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("rectified", [False, True])
def test_outputs_and_gradients(
    kernels: Kernels, device: str, shape: tuple[int, ...], added: bool, rectified: bool
) -> None:
    """Models with rows of parameters further apart than they are long; groups of more members than a program's rows."""
    norm = kernels("triton_group_norm")
    torch.manual_seed(0)
    images, upstream, other = torch.randn(shape) + 3, torch.randn(shape), torch.randn(shape)
    weight, bias = torch.randn(shape[0], shape[1] + 3)[:, 1:-2], torch.randn(shape[0], shape[1])
    truth = []
    for n in range(shape[0]):
        inputs = (images[n].movedim(-1, 0), weight[n], bias[n], other[n].movedim(-1, 0))
        leaves = [values.double().detach().requires_grad_() for values in inputs]
        outputs = group_norm(leaves[0], 2, *leaves[1:3], eps=1e-5)
        outputs = outputs + leaves[3] if added else outputs + 0 * leaves[3]
        outputs = outputs.relu() if rectified else outputs
        truth.append([outputs, *torch.autograd.grad(outputs, leaves, upstream[n].movedim(-1, 0).double())])
    there = [values.to(device) for values in (images, weight, bias, other, upstream)]
    outputs, kept = norm.forward(*there[:3], 2, 1e-5, there[3] if added else None, rectified)
    of_weight, of_bias = torch.empty_like(there[1]), torch.empty(*shape[:2], device=device)
    norm.parameter_gradient(kept, there[4], of_weight, of_bias, 2)
    of_images, *of_other = norm.input_gradient(kept, there[1], there[4], 2, added)
    for index, values in enumerate((outputs, of_images, of_weight, of_bias, *of_other)):
        wanted = torch.stack([row[index].detach() for row in truth])
        wanted = wanted.movedim(1, -1) if index in (0, 1, 4) else wanted
        torch.testing.assert_close(values.cpu().double(), wanted, rtol=1e-4, atol=1e-4)
    assert len(of_other) == added


def test_what_is_no_number_passes(kernels: Kernels, device: str) -> None:
    """Through ReLU too, so that a model that has diverged shows."""
    norm = kernels("triton_group_norm")
    images = torch.tensor([torch.nan, 1.0, 2.0, 3.0], device=device).view(1, 2, 2, 1, 1)
    ones = torch.ones(1, 2, device=device)
    outputs, _ = norm.forward(images, ones, ones, 2, 1e-5, None, True)
    assert outputs.isnan().flatten().tolist() == [True, True, False, False]
