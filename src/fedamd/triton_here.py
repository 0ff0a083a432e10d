"""Whether Triton's kernels can be used: it is installed, and new enough. What the first of them waits for begins early.

That is loading Triton, hashing all of it (400 MB) and building its driver with a C compiler: seconds, where the disk is
cold.
"""

import os
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import torch

OLDEST_TRITON = (3, 4)  # earlier ones cannot carry tuples through loops


@cache
def has_triton() -> bool:
    """Whether Triton is here; on a GPU it is what PyTorch brings along."""
    if find_spec("triton") is None:
        return False
    os.environ.setdefault("TRITON_STORE_BINARY_ONLY", "1")  # writing down all stages of a kernel takes its time
    import triton

    major, minor = triton.__version__.split(".")[:2]
    return (int(major), int(minor)) >= OLDEST_TRITON


class Begun(NamedTuple):
    """What is under way; what goes wrong is kept: kernels that cannot run fail again, and are told of, when needed."""

    compiler: Future[None]  # is ready for kernels
    kernel: Future[None]  # the first of them has run, and nothing is under way any more


def begin(device: torch.device) -> Begun:
    """Have Triton ready for this device, once, beside whatever comes next; nothing to do unless it is a GPU."""
    if device.type != "cuda":
        done: Future[None] = Future()
        done.set_result(None)
        return Begun(done, done)
    if device.index is not None:
        return _begun(device.index)
    # CUDA is initialised by whoever chooses a GPU; else it is the first, and there is no need to wait for that here
    return _begun(torch.cuda.current_device() if torch.cuda.is_initialized() else 0)


@cache
def _begun(gpu: int) -> Begun:
    device, thread = torch.device("cuda", gpu), ThreadPoolExecutor(1, "triton")
    begun = Begun(thread.submit(_first_kernel, device, compile_only=True), thread.submit(_first_kernel, device))
    thread.shutdown(wait=False)
    return begun


def _first_kernel(device: torch.device, compile_only: bool = False) -> None:
    """The one that every run on a GPU draws with."""
    if has_triton():
        from fedamd import triton_draw

        words = torch.zeros(1, dtype=torch.int64, device=device)
        with torch.cuda.device(device):
            (triton_draw.compile_mixed if compile_only else triton_draw.mixed)(words)
