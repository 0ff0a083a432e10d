"""Federated methods, one file each, and their names in configs."""

from dataclasses import dataclass

from fedamd.algorithms.base import Algorithm
from fedamd.algorithms.fedamd import FedAMD

__all__ = ["ALGORITHMS", "Algorithm", "FedAMD", "Method"]


@dataclass(frozen=True)
class Method:
    """A method that can be named in a config, with the settings its name stands for."""

    description: str
    make: type[Algorithm]
    presets: tuple[tuple[str, object], ...] = ()


ALGORITHMS: dict[str, Method] = {
    "fedamd": Method("FedAMD: anchors and miners in one round (Wu et al., 2023)", FedAMD),
}
