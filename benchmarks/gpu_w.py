"""The paper's workload W: one run of each method, first round and the rest, and a grid of runs in lockstep.

Fashion-MNIST, 100 clients × 600 samples of two classes, LeNet-5, 20 clients a round, K = 10, b' = 64, evaluation on
10,000 images after every round.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from pictures import fashion_mnist
from timed_rounds import Bench, Row

RATES = [(eta_l, eta_s) for eta_l in (0.01, 0.1, 0.03, 0.02, 0.008, 0.005) for eta_s in (1.0, 0.8, 0.1)]
METHODS: dict[str, dict[str, Any]] = {
    "FedAMD (sequential)": {"name": "fedamd", "tau": 2, "eta_l": 0.03},
    "FedAMD (constant)": {"name": "fedamd", "p": "optimal", "eta_l": 0.008},  # with 0.03 it diverges
    "FedAvg": {"name": "fedavg", "eta_l": 0.03},
}


def settings(algorithm: dict[str, Any], tiny: bool, **more: object) -> dict[str, Any]:
    """W with this method."""
    shape = {"partition": {"name": "classes"}, "model": {"name": "lenet5"}, "algorithm": algorithm}
    small = {"clients": 10, "cohort": 3, "algorithm": {"steps": 2, "small_batch": 4} | algorithm}
    return shape | (small if tiny else {}) | more


def measurements(bench: Bench) -> dict[str, Callable[[], Row]]:
    """One run of each method."""
    data, rounds = fashion_mnist(bench.tiny), 3 if bench.tiny else 400

    def one(algorithm: dict[str, Any]) -> Row:
        runs = bench.runs(data, [settings(algorithm, bench.tiny)], rounds)
        return bench.timed(runs)

    return {name: partial(one, algorithm) for name, algorithm in METHODS.items()}


def grid(bench: Bench) -> dict[str, Callable[[], Row]]:
    """18 pairs of rates × 3 seeds of FedAMD (sequential)."""
    data, rounds = fashion_mnist(bench.tiny), 2 if bench.tiny else 400
    points = [(*pair, seed) for pair in RATES for seed in range(3)][: 4 if bench.tiny else None]

    def all_at_once() -> Row:
        method = METHODS["FedAMD (sequential)"]
        chosen = [
            settings(method | {"eta_l": eta_l, "eta_s": eta_s}, bench.tiny, seed=seed) for eta_l, eta_s, seed in points
        ]
        return {"runs": len(points)} | bench.timed(bench.runs(data, chosen, rounds))

    return {f"FedAMD (sequential), {len(points)} runs in lockstep": all_at_once}
