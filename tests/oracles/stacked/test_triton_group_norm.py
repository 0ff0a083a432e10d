"""The Triton kernels of group normalisation against PyTorch's, on a GPU or in Triton's interpreter."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch.nn.functional import group_norm

Kernels = Callable[[str], ModuleType]


@pytest.mark.parametrize("shape", [(2, 6, 3, 2, 5), (1, 4, 7, 9, 33), (3, 2, 2)])
def test_outputs_and_gradients(kernels: Kernels, device: str, shape: tuple[int, ...]) -> None:
    """Models with rows of parameters further apart than they are long; groups of more members than a program's rows."""
    norm = kernels("triton_group_norm")
    torch.manual_seed(0)
    images, upstream = torch.randn(shape) + 3, torch.randn(shape)
    weight, bias = torch.randn(shape[0], shape[1] + 3)[:, 1:-2], torch.randn(shape[0], shape[1])
    truth = []
    for n in range(shape[0]):
        inputs = (images[n].movedim(-1, 0).double(), weight[n].double(), bias[n].double())
        leaves = [values.detach().requires_grad_() for values in inputs]
        outputs = group_norm(leaves[0], 2, *leaves[1:], eps=1e-5)
        truth.append([outputs, *torch.autograd.grad(outputs, leaves, upstream[n].movedim(-1, 0).double())])
    there = [values.to(device) for values in (images, weight, bias, upstream)]
    outputs, means, scales = norm.forward(*there[:3], 2, 1e-5)
    ours = (outputs, *norm.backward(there[0], there[1], means, scales, there[3], 2))
    for index, values in enumerate(ours):
        wanted = torch.stack([row[index].detach() for row in truth])
        wanted = wanted.movedim(1, -1) if index < 2 else wanted
        torch.testing.assert_close(values.cpu().double(), wanted, rtol=1e-4, atol=1e-4)
