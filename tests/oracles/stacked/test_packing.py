"""Models without the taps that only ever meet padding."""

import torch

from fedamd.oracles.stacked.convolution import Geometry
from fedamd.oracles.stacked.packing import ALIGNED, LivePacking

CENTRE = Geometry((2, 1, 1), 3, (3, 3), padding=(1, 1))  # of 3×3 taps on images of 1×1


def test_what_is_packed_comes_back_and_nothing_else_changes() -> None:
    """A vector of 2, the centres of 3 · 2 kernels, and two parameters side by side, of 4 and of 1."""
    shapes = {"a": (2,), "conv": (3, 2, 3, 3), "b": (2, 2), "c": (1,)}
    packing = LivePacking(shapes, {"conv": CENTRE})
    assert packing.size == ALIGNED  # of 2 + 6 + 5 numbers
    x = torch.arange(2 * 61.0).view(2, 61)
    packed = torch.zeros(2, packing.size)
    packing.pack(x, packed)
    centres = [2.0 + 9 * pair + 4 for pair in range(6)]
    assert packed[0, :13].tolist() == [0.0, 1.0, *centres, 56.0, 57.0, 58.0, 59.0, 60.0]
    own = packing.parameters(packed)
    assert {name: tuple(values.shape) for name, values in own.items()} == {
        "a": (2, 2), "conv": (2, 3, 2, 1, 1), "b": (2, 2, 2), "c": (2, 1),
    }  # fmt: skip
    assert own["c"].tolist() == [[60.0], [121.0]]
    out = torch.full_like(x, -1.0)
    packing.unpack(packed, out)
    live = out >= 0
    assert torch.equal(out[live], x[live])
    assert live.sum(1).tolist() == [13, 13]
    packing.subtract(packed, out)
    assert out.unique().tolist() == [-1.0, 0.0]
    assert torch.equal(out == 0, live)
