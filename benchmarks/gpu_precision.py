"""What the precision of products does to accuracy: FedAvg with the same seeds, clients and batches in each of them.

CIFAR-10 on 100 clients of 500 samples, 10 a round, K = 50 steps on b' = 50, no augmentation. Accuracies are on the test
set after the last round; runs of one row are played in lockstep, one for each seed.
"""

from collections.abc import Callable
from functools import partial
from statistics import mean

from pictures import cifar_10
from timed_rounds import Bench, Row

SIZES = {"clients": 100, "cohort": 10}
ALGORITHM = {"name": "fedavg", "steps": 50, "small_batch": 50}
TRAINED = {"lenet5": (0.05, 60, 5), "resnet18-gn": (0.03, 20, 2)}  # model → η_l, rounds, seeds
TINY_SIZES, TINY_STEPS = {"clients": 5, "cohort": 2}, {"steps": 1, "small_batch": 2}


def measurements(bench: Bench) -> dict[str, Callable[[], Row]]:
    """Every network in every precision the device has."""
    data = cifar_10(bench.tiny)

    def trained(model: str, precision: str) -> Row:
        eta_l, rounds, seeds = TRAINED[model]
        sizes, steps = (TINY_SIZES, TINY_STEPS) if bench.tiny else (SIZES, {})
        settings = {
            "partition": {"name": "iid"},
            "model": {"name": model},
            "algorithm": ALGORITHM | {"eta_l": eta_l} | steps,
            "precision": precision,
        } | sizes
        seeded = [settings | {"seed": seed} for seed in range(seeds)]
        row = bench.timed(bench.runs(data, seeded, 2 if bench.tiny else rounds, evaluate=False))
        accuracies = row.get("accuracies", [])
        return row | ({"accuracy": mean(accuracies), "of_seeds": accuracies} if accuracies else {})

    precisions = ("float32", "tf32", "bf16") if bench.device == "cuda" else ("float32", "bf16")
    models = ["lenet5"] if bench.tiny else TRAINED
    return {f"{model}, {precision}": partial(trained, model, precision) for model in models for precision in precisions}
