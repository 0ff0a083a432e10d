"""A Triton kernel that mixes the words of `draw` on a GPU: one launch where PyTorch's operations take eleven."""

# The kernel below is in Triton's language, which only borrows Python's syntax.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit(do_not_specialize=["count"])
def _mix(words, count, BLOCK: tl.constexpr):
    """SplitMix64's mixer, in place; the shifts of unsigned words are logical."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    z = tl.load(words + at, mask=at < count, other=0).to(tl.uint64, bitcast=True)
    z += 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    z = z ^ (z >> 31)
    tl.store(words + at, z.to(tl.int64, bitcast=True), mask=at < count)


def compile_mixed(words: Tensor) -> None:
    """What `mixed` runs."""
    _mix.warmup(words, words.numel(), BLOCK=BLOCK, grid=(1,))


def mixed(words: Tensor) -> Tensor:
    """`draw._mixed` of int64 words, in place of them where they lie side by side."""
    words = words.contiguous()
    _mix[(triton.cdiv(words.numel(), BLOCK),)](words, words.numel(), BLOCK=BLOCK)
    return words
