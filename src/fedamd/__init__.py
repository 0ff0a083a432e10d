"""Federated learning with anchor sampling: FedAMD (Wu et al., ICML 2023), its rivals, theory and experiments.

    import fedamd
    result = fedamd.run(algorithm="fedamd", rounds=50, progress=True)

Everything a user needs is here: running, the contract for methods of your own, data, models, metrics. Names are
imported when they are first used: `import fedamd` is quick, and the parts that need nothing but PyTorch (algorithms,
engines, oracles, models, data) can be used where nothing else is installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedamd.errors import FedamdError

if TYPE_CHECKING:
    from fedamd.algorithms import FedAMD, FedAvg
    from fedamd.algorithms.base import (
        Algorithm,
        Answers,
        Batches,
        Compressed,
        Exchange,
        Federation,
        Gradient,
        Replies,
        Reply,
        Role,
        State,
        Task,
        Turn,
        mean,
        role,
    )
    from fedamd.algorithms.by_theory import KnownProblem, TheoryValues
    from fedamd.algorithms.local import LocalSteps
    from fedamd.algorithms.parameters import param
    from fedamd.algorithms.server import ServerStep
    from fedamd.campaigns.from_python import compare, sweep
    from fedamd.data import Dataset, Partition, load
    from fedamd.engines.base import Engine
    from fedamd.metrics import Metric
    from fedamd.oracles.base import Batch, Oracle
    from fedamd.participation import Sampler
    from fedamd.report.write import report
    from fedamd.runs.api import Result, load_model, resume, run
    from fedamd.runs.callbacks import Budget, Callback, CSVLog, EarlyStopping, MLflow, StopAt, WandB
    from fedamd.runs.config import Config, load_config
    from fedamd.runs.records import Record
    from fedamd.runs.session import Session, Sink

__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "Answers",
    "Batch",
    "Batches",
    "Budget",
    "CSVLog",
    "Callback",
    "Compressed",
    "Config",
    "Dataset",
    "EarlyStopping",
    "Engine",
    "Exchange",
    "FedAMD",
    "FedAvg",
    "FedamdError",
    "Federation",
    "Gradient",
    "KnownProblem",
    "LocalSteps",
    "MLflow",
    "Metric",
    "Oracle",
    "Partition",
    "Record",
    "Replies",
    "Reply",
    "Result",
    "Role",
    "Sampler",
    "ServerStep",
    "Session",
    "Sink",
    "State",
    "StopAt",
    "Task",
    "TheoryValues",
    "Turn",
    "WandB",
    "compare",
    "load",
    "load_config",
    "load_model",
    "mean",
    "param",
    "report",
    "resume",
    "role",
    "run",
    "sweep",
]

_HOMES = {  # module → those of these names that it gives
    "fedamd.runs.api": ("run", "resume", "load_model", "Result"),
    "fedamd.campaigns.from_python": ("compare", "sweep"),
    "fedamd.report.write": ("report",),
    "fedamd.runs.config": ("Config", "load_config"),
    "fedamd.runs.records": ("Record",),
    "fedamd.runs.session": ("Session", "Sink"),
    "fedamd.runs.callbacks": ("Callback", "EarlyStopping", "StopAt", "Budget", "CSVLog", "WandB", "MLflow"),
    # the contract of a method
    "fedamd.algorithms.base": (
        *("Algorithm", "State", "Turn", "Federation", "Exchange", "Answers", "Replies", "mean"),
        *("role", "Role", "Task", "Gradient", "Batches", "Reply", "Compressed"),
    ),
    "fedamd.algorithms.parameters": ("param",),
    "fedamd.algorithms.by_theory": ("KnownProblem", "TheoryValues"),
    "fedamd.algorithms.server": ("ServerStep",),
    "fedamd.algorithms.local": ("LocalSteps",),
    "fedamd.algorithms": ("FedAMD", "FedAvg"),
    # its surroundings
    "fedamd.data": ("Dataset", "Partition", "load"),
    "fedamd.engines.base": ("Engine",),
    "fedamd.oracles.base": ("Batch", "Oracle"),
    "fedamd.participation": ("Sampler",),
    "fedamd.metrics": ("Metric",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = ["FedamdError", *_HOME_OF]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'fedamd' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
