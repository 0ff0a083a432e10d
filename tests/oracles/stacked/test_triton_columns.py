"""The Triton kernel that unfolds images against PyTorch's way, on a GPU or in Triton's interpreter."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from fedamd.oracles.stacked.convolution import Geometry

Kernels = Callable[[str], ModuleType]


@pytest.mark.parametrize(
    "geometry",
    [
        Geometry((2, 5, 4), 3, (3, 3), (1, 1), (1, 1)),
        Geometry((1, 9, 8), 3, (5, 3), (2, 2), (2, 0)),  # the last column is never seen
        Geometry((2, 1, 1), 3, (3, 3), (1, 1), (1, 1)),  # only the centre of the kernel meets the image
    ],
)
def test_columns(kernels: Kernels, device: str, geometry: Geometry) -> None:
    unfold = kernels("triton_columns").unfold
    torch.manual_seed(0)
    images = torch.randn(2, *geometry.inputs, 5)
    (top, _), (left, _) = geometry._margins
    ours = unfold(images.to(device), geometry._live_taps, geometry.stride, (top, left), geometry.outputs[1:])
    assert torch.equal(ours.cpu(), geometry.unfold(images))
