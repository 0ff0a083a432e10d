"""ResNet-18 with GroupNorm on 3×32×32 pictures: 100 clients × 500 samples, 10 a round, K = 50 steps on b' = 50.

Rounds are without evaluation, which is timed by itself. FedAMD's clients keep their anchors' gradients, which start as
zeros, on the device or in the host's memory, so that its memory beside FedAvg's is that of the rounds.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from pictures import cifar_10
from timed_rounds import Bench, Row

FEDAVG = {"name": "fedavg", "eta_l": 0.01}
FEDAMD = {"name": "fedamd", "eta_l": 0.01, "p": 0.5, "start_up": "zeros", "cache": "client"}
SIZES = {"clients": 100, "cohort": 10}
STEPS = {"steps": 50, "small_batch": 50}
TINY_SIZES, TINY_STEPS = {"clients": 5, "cohort": 2}, {"steps": 1, "small_batch": 2, "eta_l": 0.001}


def measurements(bench: Bench) -> dict[str, Callable[[], Row]]:
    """FedAvg in each precision the device has, FedAMD over changing numbers of miners, and 8 runs at once."""
    data = cifar_10(bench.tiny)
    fedavg_gib: dict[str, float] = {}  # precision → its peak

    def settings(algorithm: dict[str, Any], precision: str, seed: int, store: str) -> dict[str, Any]:
        sizes, steps = (TINY_SIZES, TINY_STEPS) if bench.tiny else (SIZES, STEPS)
        return {
            "partition": {"name": "iid"},
            "model": {"name": "resnet18-gn"},
            "algorithm": algorithm | steps,
            "precision": precision,
            "seed": seed,
            "client_store": store,
        } | sizes

    def timed(algorithm: dict[str, Any], precision: str, rounds: int, runs: int = 1, store: str = "memory") -> Row:
        rounds = min(rounds, 2) if bench.tiny else rounds
        chosen = [settings(algorithm, precision, seed, store) for seed in range(runs)]
        return bench.timed(bench.runs(data, chosen, rounds, evaluate=False))

    def fedavg(precision: str) -> Row:
        row = timed(FEDAVG, precision, 5)
        fedavg_gib[precision] = row.get("gib", 0.0)
        return row

    def fedamd(precision: str, store: str) -> Row:
        row = timed(FEDAMD, precision, 7, store=store)
        reference = fedavg_gib.get(precision)
        return row | ({"gib_over_fedavg": row["gib"] / reference} if reference and "gib" in row else {})

    strict, fast = "float32", "tf32" if bench.device == "cuda" else "float32"
    together = 2 if bench.tiny else 8
    return {
        f"FedAvg, {strict}": partial(fedavg, strict),
        f"FedAvg, {strict}, again in this process": partial(timed, FEDAVG, strict, 2),
        f"FedAvg, {fast}": partial(fedavg, fast),
        f"FedAMD p = 0.5, {fast}": partial(fedamd, fast, "memory"),
        f"FedAMD p = 0.5, {fast}, gradients kept on the host": partial(fedamd, fast, "host"),
        f"FedAvg, {together} runs in lockstep, {fast}": partial(timed, FEDAVG, fast, 3, together),
        f"FedAvg, {together} runs in lockstep, {strict}": partial(timed, FEDAVG, strict, 3, together),
        "FedAvg, bf16": partial(timed, FEDAVG, "bf16", 3),
    }
