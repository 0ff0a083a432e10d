"""The Triton kernels of the fused convolution block against the plain path, on a GPU or in Triton's interpreter."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from fedamd.oracles.stacked.convolution import ConvReLUPool, Geometry

Kernels = Callable[[str], ModuleType]  # from the name of a module of kernels

# N models, M batches, B samples, (C, H, W), C', kernel: odd and even sizes, images the pooling cuts, shared batches.
CASES = [
    (2, 2, 5, (2, 7, 6), 3, (3, 2)),
    (4, 2, 3, (1, 5, 6), 2, (2, 3)),
    (3, 1, 33, (1, 3, 4), 1, (1, 1)),
    (1, 1, 16, (3, 6, 6), 4, (3, 3)),
]


def relative_error(ours: torch.Tensor, truth: torch.Tensor) -> float:
    return float((ours.cpu().double() - truth).norm() / truth.norm())


@pytest.mark.parametrize(("models", "stacks", "batch", "image", "channels", "kernel"), CASES)
def test_kernels_agree_with_the_plain_path_in_float64(
    kernels: Kernels,
    device: str,
    models: int,
    stacks: int,
    batch: int,
    image: tuple[int, int, int],
    channels: int,
    kernel: tuple[int, int],
) -> None:
    conv = kernels("triton_convolution")
    torch.manual_seed(0)
    layer = ConvReLUPool(Geometry(image, channels, kernel))
    everything = torch.randn(models, layer.size + 5)
    parameters, inputs = everything[:, 2:-3], torch.randn(stacks, *image, batch)
    upstream = torch.randn(models, *layer.shape, batch)

    truth, (_, code) = layer.forward(parameters.double(), inputs.double())
    gradient = torch.empty(models, layer.size, dtype=torch.float64)
    layer.backward(parameters.double(), (inputs.double(), code), upstream.double(), gradient)
    backwards = layer.input_gradient(parameters.double(), (inputs.double(), code), upstream.double())

    own = everything.to(device)[:, 2:-3]
    outputs, found = conv.forward(own, inputs.to(device), channels, kernel)
    assert relative_error(outputs, truth) < 1e-6
    assert torch.equal(found.cpu(), code)
    passed = conv.input_gradient(own, upstream.to(device), found, image, kernel)
    assert relative_error(passed, backwards) < 1e-6
    filled = torch.full((models, layer.size + 5), torch.nan, device=device)
    conv.weight_gradient(inputs.to(device), upstream.to(device), found, kernel, filled[:, 2:-3])
    assert relative_error(filled[:, 2:-3], gradient) < 1e-6
    assert filled[:, :2].isnan().all()
    assert filled[:, -3:].isnan().all()


def test_a_sum_over_many_samples_is_split(kernels: Kernels, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One model with 2 cells × 272 samples: two programs share the sum, and a third kernel adds their parts."""
    conv = kernels("triton_convolution")
    monkeypatch.setattr(conv, "SHARE", 8)
    torch.manual_seed(1)
    inputs = torch.randn(1, 1, 2, 4, 272, device=device)
    upstream = torch.randn(1, 1, 1, 2, 272, device=device)
    code = torch.randint(5, upstream.shape, dtype=torch.uint8, device=device)
    gradient = torch.empty(1, 2, device=device)
    conv.weight_gradient(inputs, upstream, code, (1, 1), gradient)
    alive = torch.where(code == 4, 0, upstream).double()
    windows = torch.stack([inputs[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)])
    chosen = windows.gather(0, code.clamp(max=3).long().unsqueeze(0))[0]
    truth = torch.stack(((alive * chosen).sum(), alive.sum())).cpu()
    assert relative_error(gradient[0], truth) < 1e-6
