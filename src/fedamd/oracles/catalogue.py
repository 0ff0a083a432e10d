"""The oracles there are, the fastest first: "auto" takes the first one that can."""

from typing import Any

from fedamd.errors import FedamdError
from fedamd.oracles.autograd import AutogradOracle
from fedamd.oracles.base import Oracle
from fedamd.oracles.native.oracle import NativeOracle
from fedamd.oracles.stacked.graph_oracle import GraphOracle
from fedamd.oracles.stacked.oracle import StackedOracle
from fedamd.registry import Registry


def _adopted(name: str, found: Any) -> type[Oracle]:
    wanted = ("name", "unsupported", "gradient", "difference", "loss", "evaluate")
    if not isinstance(found, type) or any(not hasattr(found, member) for member in wanted):
        raise FedamdError(f"{name} is not a class of oracles; it should inherit from fedamd.oracles.base.Oracle")
    return found


ORACLES: Registry[type[Oracle]] = Registry(
    "oracle", {kind.name: kind for kind in (NativeOracle, StackedOracle, GraphOracle, AutogradOracle)}, _adopted
)
