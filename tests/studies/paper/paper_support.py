"""A tiny experiment on digits, and outcomes written by hand."""

from collections.abc import Sequence
from typing import Any

from fedamd.studies.paper.experiments import PaperCurve, PaperExperiment
from fedamd.studies.paper.reproduce import Protocol, Rates, ReproducedCurve

TINY = Protocol(rounds=3, seeds=2)


def tiny_cell(label: str, **algorithm: Any) -> PaperCurve:
    options = {"name": "fedavg", "steps": 1, "small_batch": 4} | algorithm
    return PaperCurve(label, 2, options, data="digits", model="mlp", panel="2 clients")


EXPERIMENT = PaperExperiment(  # two methods, four pairs of rates, of which three are repeated
    "tiny",
    "A tiny experiment",
    (tiny_cell("FedAvg"), tiny_cell("FedAMD (sequential)", name="fedamd", tau=2)),
    local_rates=(0.5, 0.1),
    server_rates=(1.0, 0.5),
)


def made_run(accuracy: float, rounds: int | None = None, seed: int = 0, status: str = "finished") -> dict[str, Any]:
    """A stored run; each round cost 10⁵ gradients and 32 Mbit, half of them up."""
    reached = None
    if rounds is not None:
        reached = {
            "rounds": rounds,
            "gradient_samples": 100_000 * rounds,
            "bits_up": 16_000_000 * rounds,
            "bits_down": 16_000_000 * rounds,
        }
    return {
        "hash": f"{accuracy}-{seed}",
        "seed": seed,
        "status": status,
        "final_accuracy": accuracy,
        "to_target": reached,
        "machine": "a machine",
        "accuracy": [0.1, accuracy],
        "loss": [None, 1.0],
        "gradients": [100_000, 200_000],
        "bits": [32_000_000, 64_000_000],
    }


def made_outcome(
    label: str,
    runs: Sequence[dict[str, Any]],
    cohort: int = 20,
    grid: dict[Rates, dict[str, Any]] | None = None,
    finalists: int = 3,
) -> ReproducedCurve:
    cell = PaperCurve(label, cohort, {"name": "fedavg"}, panel=f"{cohort} clients")
    others = {(0.0, float(number)): runs for number in range(1, finalists)}
    return ReproducedCurve(cell, (0.1, 1.0), grid or {}, {(0.1, 1.0): runs} | others, planned=3)
