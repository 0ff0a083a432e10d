"""The Triton kernel that mixes words, against the arithmetic of whole numbers, on a GPU or in Triton's interpreter."""

import os

import pytest
import torch

from fedamd import draw

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # Triton looks when it is first imported, which is later than this


@pytest.mark.parametrize("shape", [(3,), (7, 211)])
def test_words_are_mixed_as_everywhere(shape: tuple[int, ...]) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    from fedamd import triton_draw

    torch.manual_seed(0)
    extremes = torch.tensor([0, -1, torch.iinfo(torch.int64).min])
    words = torch.randint(torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max, shape)
    words.view(-1)[:3] = extremes
    expected = [draw._signed(draw._mix(word & draw._WORD)) for word in words.flatten().tolist()]
    ours = triton_draw.mixed(words.to("cuda" if torch.cuda.is_available() else "cpu"))
    assert ours.shape == shape
    assert ours.flatten().tolist() == expected


def test_words_are_mixed_inside_vmap_too() -> None:
    """As the masks of dropout are, where a stack of models is differentiated."""
    rows = torch.arange(12, device="cuda" if torch.cuda.is_available() else "cpu").view(3, 4)
    inside = torch.vmap(lambda row: draw.uniforms(row, 5, torch.float32))(rows)
    assert torch.equal(inside, draw.uniforms(rows, 5, torch.float32))
