"""Which engine and which oracle a run gets: by name, or the fastest that can run its model."""

import logging

import torch
from torch import nn

from fedamd.data.base import Dataset
from fedamd.engines.base import Engine
from fedamd.engines.loop import LoopEngine
from fedamd.engines.vector import VectorEngine
from fedamd.errors import FedamdError
from fedamd.oracles.autograd import AutogradOracle
from fedamd.oracles.base import Batch, Oracle
from fedamd.oracles.native import available
from fedamd.oracles.native import layers as native
from fedamd.oracles.native.oracle import NativeOracle, visible_cpus
from fedamd.oracles.stacked import oracle as stacked

log = logging.getLogger("fedamd")

ENGINES = {
    "loop": "one client after the other: the plain reference",
    "vector": "all clients of a role, of all runs of a sweep, in one call: on a GPU, or over native code on a CPU",
    "distributed": "clients spread over processes: torchrun --nproc-per-node N -m fedamd run …",
}
ORACLES = {
    "autograd": "automatic differentiation of any model",
    "native": "C++ for small networks on a CPU, samples in the SIMD lanes",
    "stacked": "stacks of small networks on a GPU, each with its own weights",
}
_SAMPLES_AT_ONCE = {
    "autograd": 1 << 15,
    "stacked": 1 << 18,
    "native": 640,  # ten small batches: few calls from Python, and something left to deal out
}


def make_engine(name: str, oracle: str, model: nn.Module, dataset: Dataset, micro_batch: int | None = None) -> Engine:
    """The engine of this name over the oracle of that name; "auto" takes the fastest that can run the model."""
    chosen = _fastest(model, dataset) if oracle == "auto" else oracle
    made = _oracle(chosen, model, dataset)
    if name == "auto":
        name = "loop" if chosen == "autograd" and not dataset.inputs.is_cuda else "vector"
    if name == "vector" and (reason := _cannot_stack(made, dataset)):
        log.warning("this model cannot be vectorised (%s): using the loop engine", reason)
        name = "loop"
    if name == "loop":
        return LoopEngine(made, micro_batch)
    workers = [NativeOracle(model, dataset, threads=1) for _ in range(visible_cpus())] if chosen == "native" else []
    return VectorEngine(made, _SAMPLES_AT_ONCE[chosen], micro_batch, workers)


def _fastest(model: nn.Module, dataset: Dataset) -> str:
    if dataset.inputs.is_cuda:
        return "autograd" if stacked.unsupported(model, dataset) else "stacked"
    return "autograd" if available() or native.unsupported(model, dataset) else "native"


def _oracle(name: str, model: nn.Module, dataset: Dataset) -> Oracle:
    if name == "autograd":
        return AutogradOracle(model, dataset)
    if name == "native":
        _refuse_if("native", available() or native.unsupported(model, dataset))
        return NativeOracle(model, dataset)
    _refuse_if("stacked", stacked.unsupported(model, dataset))
    return stacked.StackedOracle(model, dataset)


def _refuse_if(oracle: str, reason: str | None) -> None:
    if reason:
        raise FedamdError(f"oracle = {oracle} cannot be used here: {reason}; use oracle = autograd")


def _cannot_stack(oracle: Oracle, dataset: Dataset) -> str | None:
    """Why a stack of two models fails, if it does: found by trying."""
    if not isinstance(oracle, AutogradOracle):
        return None
    x = torch.zeros(2, oracle.dimension, dtype=dataset.inputs.dtype, device=dataset.inputs.device)
    samples = torch.zeros(2, 1, dtype=torch.int64, device=x.device)
    try:
        oracle.gradient(x, Batch(samples, torch.ones_like(samples, dtype=x.dtype)))
    except RuntimeError as error:
        return str(error).strip().split("\n")[0]
    return None
