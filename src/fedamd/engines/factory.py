"""Which engine and which oracle a run gets: by name, as an object, or the fastest that can run its model."""

import logging
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from fedamd.algorithms.base import Size
from fedamd.data.base import Dataset
from fedamd.engines.base import Engine
from fedamd.engines.loop import LoopEngine
from fedamd.engines.pieces import usual_length
from fedamd.engines.precise import STRICT, PreciseEngine, check_precision, precisely
from fedamd.engines.vector import VectorEngine
from fedamd.errors import FedamdError
from fedamd.oracles.agreement import disagreement
from fedamd.oracles.autograd import AutogradOracle
from fedamd.oracles.base import Oracle
from fedamd.oracles.catalogue import ORACLES
from fedamd.registry import choose

log = logging.getLogger("fedamd")

ENGINES = {
    "loop": "one client after the other: the plain reference",
    "vector": "all clients of a role, of all runs of a sweep, in one call: on a GPU, or over native code on a CPU",
    "distributed": "clients spread over processes: torchrun --nproc-per-node N -m fedamd run …",
}
AUTO = "auto"


@dataclass(frozen=True)
class ResolvedEngine:
    """The engine a run gets, over which oracle, and why not over a faster one."""

    engine: Engine
    engine_name: str
    oracle: Oracle | None = None  # None where an engine was given as an object
    precision: str = STRICT
    passed_over: dict[str, str] = field(default_factory=dict)  # oracle → why it was not taken

    def facts(self) -> dict[str, Any]:
        """For the records."""
        facts: dict[str, Any] = {"engine": self.engine_name, "precision": self.precision}
        if self.oracle is not None:
            facts |= {"oracle": self.oracle.name, "same_bits_in_any_stack": self.oracle.exact_in_batch}
        return facts | ({"passed_over": self.passed_over} if self.passed_over else {})


def make_engine(
    name: str,
    oracle: str | Oracle,
    model: nn.Module,
    dataset: Dataset,
    micro_batch: int | None = None,
    precision: str = STRICT,
) -> Engine:
    """The engine of `choose_engine`, for whom the reasons do not matter."""
    return choose_engine(name, oracle, model, dataset, micro_batch, precision).engine


def choose_engine(
    engine: str | Engine,
    oracle: str | Oracle,
    model: nn.Module,
    dataset: Dataset,
    micro_batch: int | None = None,
    precision: str = STRICT,
    batch: Size = "full",
) -> ResolvedEngine:
    """The engine over the oracle, by name or as objects; "auto" takes the fastest that can run the model.

    An engine given as an object has its oracle already. An oracle given as an object is taken at its word: only those
    that are chosen or named are compared with autograd. `batch` is what most gradients are asked for on.
    """
    if not isinstance(engine, str):
        return ResolvedEngine(engine, type(engine).__name__)
    device, passed_over = dataset.inputs.device, dict[str, str]()
    check_precision(precision, device, next(model.parameters()).dtype)
    if precision == "bf16" and isinstance(oracle, str):
        oracle = _for_autocast(oracle, passed_over)
    with precisely(STRICT, device):
        made = _oracle(oracle, model, dataset, passed_over, batch) if isinstance(oracle, str) else oracle
        name = _engine_name(engine, made, dataset)
    plain = (
        LoopEngine(made, micro_batch)
        if name == "loop"
        else VectorEngine(made, made.samples_at_once, micro_batch, made.workers())
    )
    exact = plain if device.type == "cpu" and precision == STRICT else PreciseEngine(plain, precision, device)
    return ResolvedEngine(exact, name, made, precision, passed_over)


def _for_autocast(oracle: str, passed_over: dict[str, str]) -> str:
    """Kernels that are written by hand are in float32."""
    if oracle not in (AUTO, AutogradOracle.name):
        raise FedamdError(f'precision = "bf16" is for oracle = autograd, not {oracle}')
    if oracle == AUTO:
        passed_over |= {name: "it computes in float32" for name in ORACLES if name != AutogradOracle.name}
    return AutogradOracle.name


def _engine_name(name: str, oracle: Oracle, dataset: Dataset) -> str:
    if name == AUTO:
        name = "vector" if dataset.inputs.device.type in oracle.stacks_on else "loop"
    choose(ENGINES, name, "engine")
    if name == "vector" and (reason := oracle.cannot_stack()):
        log.warning("this model cannot be vectorised (%s): using the loop engine", reason)
        return "loop"
    return name


def _oracle(name: str, model: nn.Module, dataset: Dataset, passed_over: dict[str, str], batch: Size) -> Oracle:
    """The oracle of this name, or the fastest that can; what was passed over is noted with its reason."""
    kind = _fastest(model, dataset, passed_over) if name == AUTO else ORACLES.find(name, "oracle")
    if name != AUTO and (reason := kind.unavailable() or kind.unsupported(model, dataset)):
        raise FedamdError(f"oracle = {name} cannot be used here: {reason}; use oracle = autograd")
    made = kind(model, dataset)
    length = usual_length(batch) if dataset.inputs.is_cuda else 0  # on a CPU any is as good as another
    made.expect(length)
    if kind is AutogradOracle or (difference := disagreement(made, model, dataset, length)) is None:
        return made
    log.warning("the oracle %s does not compute this model: %s; using autograd", kind.name, difference)
    passed_over[kind.name] = difference
    return AutogradOracle(model, dataset)


def _fastest(model: nn.Module, dataset: Dataset, passed_over: dict[str, str]) -> type[Oracle]:
    """The first in the catalogue that is made for the device and takes the model. Autograd always does."""
    for kind in ORACLES.values():
        if kind.made_for not in (None, dataset.inputs.device.type):
            continue
        if reason := kind.unsupported(model, dataset):
            passed_over[kind.name] = reason
        elif reason := kind.unavailable():
            log.warning("this run is slower than it could be: for the oracle %s, %s", kind.name, reason)
            passed_over[kind.name] = reason
        else:
            return kind
    return AutogradOracle
