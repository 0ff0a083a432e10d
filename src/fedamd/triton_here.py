"""Whether Triton's kernels can be used: it is installed, and new enough. What the first of them waits for begins early.

That is loading Triton, hashing all of it (400 MB) and building its driver with a C compiler: seconds, where the disk is
cold.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec

import torch

OLDEST_TRITON = (3, 4)  # earlier ones cannot carry tuples through loops


@cache
def has_triton() -> bool:
    """Whether Triton is here; on a GPU it is what PyTorch brings along."""
    if find_spec("triton") is None:
        return False
    import triton

    major, minor = triton.__version__.split(".")[:2]
    return (int(major), int(minor)) >= OLDEST_TRITON


def begin(device: torch.device) -> Future[None]:
    """Have Triton ready for this device, once, beside whatever comes next; nothing to do unless it is a GPU.

    What goes wrong is kept in the future: kernels that cannot run here fail again, and are told of, where they are
    needed.
    """
    if device.type != "cuda":
        done: Future[None] = Future()
        done.set_result(None)
        return done
    return _begun(torch.cuda.current_device() if device.index is None else device.index)


@cache
def _begun(gpu: int) -> Future[None]:
    thread = ThreadPoolExecutor(1, "triton")
    begun = thread.submit(_first_kernel, torch.device("cuda", gpu))
    thread.shutdown(wait=False)
    return begun


def _first_kernel(device: torch.device) -> None:
    """A call of the kernel that every run on a GPU draws with."""
    if has_triton():
        from fedamd import triton_draw

        with torch.cuda.device(device):
            triton_draw.mixed(torch.zeros(1, dtype=torch.int64, device=device))
