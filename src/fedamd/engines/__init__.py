"""Engines: where and how the exchanges of an algorithm are executed."""

from torch import nn

from fedamd.data.base import Dataset
from fedamd.engines.base import Engine
from fedamd.engines.loop import LoopEngine
from fedamd.oracles.autograd import AutogradOracle

__all__ = ["ENGINES", "Engine", "LoopEngine", "make_engine"]

ENGINES = {
    "loop": "one client after the other: the plain reference",
}


def make_engine(name: str, oracle: str, model: nn.Module, dataset: Dataset, micro_batch: int | None = None) -> Engine:
    """The engine of this name over the oracle of that name."""
    return LoopEngine(AutogradOracle(model, dataset), micro_batch)
