"""How fast the paper's workload W runs on a GPU, one run and a whole grid in lockstep, and how exactly it repeats.

W: Fashion-MNIST, 100 clients × 600 samples of 2 classes, LeNet-5, 20 clients a round, K = 10, b' = 64, evaluation on
10,000 images every round. Run as

    python benchmarks/gpu.py --rounds 400 --grid --json benchmarks/results/gpu.json
"""

import argparse
import json
import time
from pathlib import Path

import torch

from fedamd.runs.api import engine_for
from fedamd.runs.config import load_config
from fedamd.runs.experiment import build_experiment
from fedamd.runs.run import Run
from fedamd.runs.session import Session

RATES = [(eta_l, eta_s) for eta_l in (0.1, 0.03, 0.02, 0.01, 0.008, 0.005) for eta_s in (1.0, 0.8, 0.1)]


def runs_of(algorithm: dict, points: list[tuple[float, float, int]], rounds: int, **more: object) -> list[Run]:
    """One run of W for each (η_l, η_s, seed)."""
    configs = [
        load_config(
            {
                "data": {"name": "fashion-mnist"},
                "algorithm": {**algorithm, "eta_l": eta_l, "eta_s": eta_s},
                "rounds": rounds,
                "seed": seed,
                "device": "cuda",
            },
            more,
        )
        for eta_l, eta_s, seed in points
    ]
    return [Run(build_experiment(config)) for config in configs]


def timed(runs: list[Run], engine: object) -> float:
    """Seconds for all rounds, evaluation included."""
    torch.cuda.synchronize()
    begun = time.perf_counter()
    Session(runs, engine).run()
    torch.cuda.synchronize()
    return time.perf_counter() - begun


def parity(algorithm: dict) -> float:
    """Relative distance after one round from a common start: vector + stacked against loop + autograd."""
    fast, plain = (
        runs_of(algorithm, [(0.01, 1.0, 0)], 2, **how)[0] for how in ({}, {"engine": "loop", "oracle": "autograd"})
    )
    for run in (fast, plain):
        timed([run], engine_for(run.experiment))
    moved = (plain.state.x - plain.experiment.x0).norm()
    return ((fast.state.x - plain.state.x).norm() / moved).item()


def repeated(algorithm: dict, rounds: int) -> dict[str, float]:
    """How far the same run ends from itself, over the way moved: run again alone, and as one of a grid of 18."""
    alone, again = (runs_of(algorithm, [(*RATES[0], 0)], rounds) for _ in range(2))
    grid = runs_of(algorithm, [(*pair, 0) for pair in RATES], rounds)
    engine = engine_for(alone[0].experiment)
    for runs in (alone, again, grid):
        timed(runs, engine)
    moved = (alone[0].state.x - alone[0].experiment.x0).norm()
    distances = {"again": again[0].state.x, "in a grid": grid[0].state.x}
    return {name: ((x - alone[0].state.x).norm() / moved).item() for name, x in distances.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--grid", action="store_true", help="also 18 pairs of rates × 3 seeds in lockstep")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    sequential, constant = {"name": "fedamd", "tau": 2}, {"name": "fedamd", "p": "optimal"}
    results: dict[str, object] = {"device": torch.cuda.get_device_name(), "rounds": arguments.rounds}
    results["parity"] = {name: parity(a) for name, a in (("sequential", sequential), ("fedavg", {"name": "fedavg"}))}
    results["distance from itself"] = {f"{rounds} rounds": repeated(sequential, rounds) for rounds in (2, 10, 50)}
    print(results, flush=True)
    for name, algorithm, eta_l in (
        ("fedamd sequential", sequential, 0.03),
        ("fedamd constant", constant, 0.008),  # with 0.03 it diverges
        ("fedavg", {"name": "fedavg"}, 0.03),
    ):
        warm = runs_of(algorithm, [(eta_l, 1.0, 0)], 12)
        engine = engine_for(warm[0].experiment)
        timed(warm, engine)
        one = runs_of(algorithm, [(eta_l, 1.0, 0)], arguments.rounds)
        results[f"{name}, one run, s"] = timed(one, engine)
        results[f"{name}, one run, rounds"] = one[0].t  # fewer where it diverged
        print(name, "one run", results[f"{name}, one run, s"], one[0].records[-1], flush=True)
        if arguments.grid and name == "fedamd sequential":
            points = [(*pair, seed) for pair in RATES for seed in range(3)]
            timed(runs_of(algorithm, points, 4), engine)
            grid = runs_of(algorithm, points, arguments.rounds)
            results["fedamd sequential, 18 pairs × 3 seeds in lockstep, s"] = timed(grid, engine)
            print("grid", results["fedamd sequential, 18 pairs × 3 seeds in lockstep, s"], flush=True)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
