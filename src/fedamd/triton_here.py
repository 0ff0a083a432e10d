"""Whether Triton's kernels can be used: it is installed, and new enough."""

from functools import cache
from importlib.util import find_spec

OLDEST_TRITON = (3, 4)  # earlier ones cannot carry tuples through loops


@cache
def has_triton() -> bool:
    """Whether Triton is here; on a GPU it is what PyTorch brings along."""
    if find_spec("triton") is None:
        return False
    import triton

    major, minor = triton.__version__.split(".")[:2]
    return (int(major), int(minor)) >= OLDEST_TRITON
