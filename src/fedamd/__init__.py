"""Federated learning with anchor sampling: FedAMD (Wu et al., ICML 2023), its rivals, theory and experiments.

Names are imported when they are first used: `import fedamd` is quick, and the parts that need nothing but PyTorch
(algorithms, engines, oracles, models, data) can be used where nothing else is installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedamd.errors import FedamdError

if TYPE_CHECKING:
    from fedamd.algorithms import Algorithm, FedAMD
    from fedamd.data import Dataset, Partition, load
    from fedamd.runs.api import Result, resume, run
    from fedamd.runs.config import Config, load_config

__version__ = "0.1.0"
__all__ = [
    "Algorithm",
    "Config",
    "Dataset",
    "FedAMD",
    "FedamdError",
    "Partition",
    "Result",
    "load",
    "load_config",
    "resume",
    "run",
]

_HOMES = {
    "Algorithm": "fedamd.algorithms",
    "FedAMD": "fedamd.algorithms",
    "Dataset": "fedamd.data",
    "Partition": "fedamd.data",
    "load": "fedamd.data",
    "Result": "fedamd.runs.api",
    "resume": "fedamd.runs.api",
    "run": "fedamd.runs.api",
    "Config": "fedamd.runs.config",
    "load_config": "fedamd.runs.config",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'fedamd' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
