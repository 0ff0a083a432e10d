"""The Triton kernels of sliding windows against PyTorch's way, on a GPU or in Triton's interpreter."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from fedamd.oracles.stacked.convolution import Geometry
from fedamd.oracles.stacked.functions import WindowMaxima

Kernels = Callable[[str], ModuleType]

GEOMETRIES = [
    Geometry((2, 5, 4), 3, (3, 3), (1, 1), (1, 1)),
    Geometry((1, 9, 8), 3, (5, 3), (2, 2), (2, 0)),  # the last column is never seen
    Geometry((2, 7, 6), 3, (2, 4), (3, 1), (1, 2)),  # rows between windows, and windows that overlap
    Geometry((2, 1, 1), 3, (3, 3), (1, 1), (1, 1)),  # only the centre of the kernel meets the image
]


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_columns(kernels: Kernels, device: str, geometry: Geometry) -> None:
    columns = kernels("triton_columns")
    torch.manual_seed(0)
    images = torch.randn(2, *geometry.inputs, 5)
    truth = geometry.unfold(images)
    ours = columns.unfold(images.to(device), geometry)
    assert torch.equal(ours.cpu(), truth)
    upstream, start = torch.randn_like(truth), torch.randn_like(images)
    for begin in (None, start):
        there = None if begin is None else begin.to(device)
        ours = columns.fold(upstream.to(device), geometry, 5, there)
        torch.testing.assert_close(ours.cpu(), geometry.fold(upstream, 5, begin))


@pytest.mark.parametrize(
    "geometry",
    [Geometry((2, 7, 8), 2, (3, 3), (2, 2), (1, 1)), Geometry((3, 5, 4), 3, (2, 3), (2, 1), (0, 1))],
)
def test_maxima(kernels: Kernels, device: str, geometry: Geometry) -> None:
    """With equal values, of which the first counts, and one that is no number, which passes."""
    columns = kernels("triton_columns")
    torch.manual_seed(0)
    images = torch.randint(5, (2, *geometry.inputs, 5)).double()
    images[0, 0, 3, 2, 1] = torch.nan
    layer = WindowMaxima(geometry)
    best, code = layer.outputs(images)
    ours, its_code = columns.largest(images.float().to(device), geometry)
    torch.testing.assert_close(ours.cpu().double(), best, equal_nan=True)
    upstream = torch.randn_like(best).where(~best.isnan(), 0.0)
    back = columns.largest_back(upstream.float().to(device), its_code, geometry)
    torch.testing.assert_close(back.cpu().double(), *layer.returned(code, upstream), rtol=1e-5, atol=1e-6)
