"""The paper's experiments as data: which method, which cohort, which batches, which grid of rates.

A cell is one curve of a figure or one entry of a table. Its rates are chosen as the paper chose them: by the best final
accuracy. Table 2, Figure 1 and the study of b search the whole grid; the others take their η_s from Table 2.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LOCAL_RATES = (0.1, 0.03, 0.02, 0.01, 0.008, 0.005)  # η_l
SERVER_RATES = (1.0, 0.8, 0.1)  # η_s
COHORTS = (20, 40, 100)  # A
TARGET = 0.75

METHODS: dict[str, dict[str, Any]] = {
    "BVR-L-SGD": {"name": "bvr-l-sgd", "period": 2},
    "FedAvg": {"name": "fedavg"},
    "FedPAGE": {"name": "fedpage", "p": 0.5},
    "SCAFFOLD": {"name": "scaffold", "option": "II", "start_up": "full"},
    "FedAMD (constant)": {"name": "fedamd", "p": "optimal"},
    "FedAMD (sequential)": {"name": "fedamd", "tau": 2},
}
SCHEDULES: dict[str, dict[str, Any]] = {
    "{0,1}": {"name": "fedamd", "tau": 2},
    "{0,0,1}": {"name": "fedamd", "tau": 3},
    "p = 0.5": {"name": "fedamd", "p": 0.5},
    "p = 0.7": {"name": "fedamd", "p": 0.7},
    "p = 0.9": {"name": "fedamd", "p": 0.9},
    "p = p*": {"name": "fedamd", "p": "optimal"},
}


@dataclass(frozen=True, eq=False)  # by identity: what is made from a cell is cached, and its options have no hash
class PaperCurve:
    """One curve: a label, the cohort A, and the config without its rates."""

    label: str
    cohort: int
    algorithm: Mapping[str, Any]
    data: str = "fashion-mnist"
    model: str = "lenet5"
    panel: str = ""  # which sub-figure it belongs to

    def config(self, eta_l: float, eta_s: float, seed: int, rounds: int) -> dict[str, Any]:
        """The run with these rates and this seed."""
        return {
            "data": {"name": self.data},
            "partition": {"name": "classes", "classes_per_client": 2},
            "model": {"name": self.model},
            "algorithm": {**self.algorithm, "eta_l": eta_l, "eta_s": eta_s},
            "clients": 100,
            "cohort": self.cohort,
            "rounds": rounds,
            "seed": seed,
            "target_accuracy": TARGET,
        }


@dataclass(frozen=True)
class PaperExperiment:
    """A table or a figure of the paper."""

    name: str
    title: str
    cells: tuple[PaperCurve, ...]
    local_rates: tuple[float, ...] = LOCAL_RATES
    server_rates: tuple[float, ...] = SERVER_RATES
    search: str = "grid"  # how rates are looked for: see `fedamd.studies.paper.reproduce.SEARCHES`
    notes: str = ""

    def rates(self) -> list[tuple[float, float]]:
        """The grid: all pairs (η_l, η_s)."""
        return [(eta_l, eta_s) for eta_l in self.local_rates for eta_s in self.server_rates]


def _cells(algorithms: Mapping[str, Mapping[str, Any]], steps: int, small_batch: int = 64) -> tuple[PaperCurve, ...]:
    """Every algorithm with every cohort, a panel for each cohort."""
    return tuple(
        PaperCurve(label, A, {**algorithm, "steps": steps, "small_batch": small_batch}, panel=f"{A} clients")
        for A in COHORTS
        for label, algorithm in algorithms.items()
    )


def _batch_study(settings: Mapping[str, Any]) -> tuple[PaperCurve, ...]:
    """FedAMD with one schedule and b ∈ {64, 256, full}."""
    batches = {f"b = {size}": {"name": "fedamd", **settings, "large_batch": size} for size in (64, 256, "full")}
    return _cells(batches, steps=10)


def _emnist(data: str) -> tuple[PaperCurve, ...]:
    settings = {**SCHEDULES, **METHODS}
    panels = [(10, 256), (20, 128), (10, 128)]
    return tuple(
        PaperCurve(label, 20, {**algorithm, "steps": K, "small_batch": b}, data, "mlp", panel=f"K = {K}, b' = {b}")
        for K, b in panels
        for label, algorithm in settings.items()
    )


EXPERIMENTS: dict[str, PaperExperiment] = {
    experiment.name: experiment
    for experiment in (
        PaperExperiment("table2", "Table 2: all methods, K = 10, b' = 64", _cells(METHODS, 10)),
        PaperExperiment("figure1", "Figure 1: probability settings, K = 10", _cells(SCHEDULES, 10)),
        PaperExperiment("figure1-k5", "Probability settings, K = 5", _cells(SCHEDULES, 5), search="local"),
        PaperExperiment("figure1-k20", "Probability settings, K = 20", _cells(SCHEDULES, 20), search="local"),
        PaperExperiment("batch-p09", "Large batch b, p = 0.9", _batch_study({"p": 0.9})),
        PaperExperiment("batch-optimal", "Large batch b, p = p*", _batch_study({"p": "optimal"})),
        PaperExperiment("batch-sequential", "Large batch b, {0,1}", _batch_study({"tau": 2})),
        PaperExperiment("methods-k5", "All methods, K = 5", _cells(METHODS, 5), search="local"),
        PaperExperiment("methods-k20", "All methods, K = 20", _cells(METHODS, 20), search="local"),
        PaperExperiment("emnist", "EMNIST digits, MLP, A = 20", _emnist("emnist-digits"), search="local"),
        PaperExperiment(
            "mnist",
            "MNIST digits as a stand-in for EMNIST, MLP, A = 20",
            _emnist("mnist"),
            search="local",
            notes="MNIST has 60,000 training images where EMNIST digits has 240,000: not the paper's experiment.",
        ),
    )
}
