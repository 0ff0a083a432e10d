"""Clients of unequal size against equal ones: FedAMD τ = 2, LeNet-5 on 3×32×32 pictures, K = 20, b = all samples.

And FedNova, whose clients each take as many steps as they have samples for. 10 of 100 clients a round, with evaluation
after every round.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from pictures import cifar_10
from timed_rounds import Bench, Row

PARTITIONS: dict[str, dict[str, Any]] = {
    "equal": {"name": "iid"},
    "Dirichlet(0.3)": {"name": "dirichlet", "alpha": 0.3},
    "Dirichlet(0.1)": {"name": "dirichlet", "alpha": 0.1},
}
METHOD = {"name": "fedamd", "tau": 2, "eta_l": 0.003, "large_batch": "full"}
FEDNOVA = {"name": "fednova", "eta_l": 0.01, "small_batch": 50}


def measurements(bench: Bench) -> dict[str, Callable[[], Row]]:
    """The same run on each partition, and FedNova's, alone and in lockstep."""
    data, rounds = cifar_10(bench.tiny), 4 if bench.tiny else 400
    clients, cohort, steps = (10, 3, 2) if bench.tiny else (100, 10, 20)

    def played(partition: dict[str, Any], method: dict[str, Any], rounds: int, count: int = 1) -> Row:
        settings = {
            "partition": partition,
            "model": {"name": "lenet5"},
            "algorithm": method | ({} if method is FEDNOVA else {"steps": steps}),
            "clients": clients,
            "cohort": cohort,
        }
        runs = bench.runs(data, [settings | {"seed": seed} for seed in range(count)], rounds)
        sizes = list(runs[0].experiment.clients.sizes)
        row = {"smallest": min(sizes), "largest": max(sizes)} | bench.timed(runs)
        gradients = sum(run.ledger.gradient_samples for run in runs)  # of single samples
        return row | {"gradients_a_round": gradients / max(1, runs[0].t)}

    rows = {name: partial(played, partition, METHOD, rounds) for name, partition in PARTITIONS.items()}
    mild, strong = "Dirichlet(0.3)", "Dirichlet(0.1)"  # there FedNova's clients differ in their numbers of steps too
    return rows | {
        f"FedNova, {mild}": partial(played, PARTITIONS[mild], FEDNOVA, rounds),
        f"FedNova, {strong}": partial(played, PARTITIONS[strong], FEDNOVA, rounds // 4),
        f"FedNova, {mild}, 6 runs": partial(played, PARTITIONS[mild], FEDNOVA, rounds // 4, 6),
    }
