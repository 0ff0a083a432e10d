"""Federated learning with anchor sampling: FedAMD (Wu et al., ICML 2023), its rivals, theory and experiments."""

from fedamd.algorithms import FedAMD
from fedamd.data import Dataset, Partition, load
from fedamd.errors import FedamdError
from fedamd.runs.api import Result, resume, run
from fedamd.runs.config import Config, load_config

__all__ = ["Config", "Dataset", "FedAMD", "FedamdError", "Partition", "Result", "load", "load_config", "resume", "run"]
__version__ = "0.1.0"
