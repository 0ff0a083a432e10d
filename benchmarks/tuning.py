"""What tuning saves: rounds of `fedamd tune` against those of the full grid, and the accuracy that each of them finds.

    python benchmarks/tuning.py [digits | fashion-mnist] [--trials 12] [--seeds 3] [--device cuda]

The grid is six η_l by three η_s; tuning gets two thirds as many trials, in one
batch, from the same ranges. Both choose on one seed; what they chose is then run on fresh seeds, in the same way, and
the mean of the last five evaluations compared. Prints JSON.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import fedamd
from fedamd.algorithms.space import Log
from fedamd.campaigns.tune import plan, tune

RATES, SERVER_RATES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001), (0.3, 1.0, 1.5)
METHOD = {"name": "fedavg", "steps": 10, "small_batch": 64}
PROBLEMS: dict[str, dict[str, Any]] = {
    "digits": {"data": {"name": "digits"}, "clients": 100, "cohort": 20, "rounds": 135, "evaluate_every": 3},
    "fashion-mnist": {
        "data": {"name": "fashion-mnist"},
        "model": {"name": "lenet5"},
        "clients": 100,
        "cohort": 20,
        "rounds": 90,
        "evaluate_every": 2,
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem", nargs="?", choices=PROBLEMS, default="digits")
    parser.add_argument("--trials", type=int, default=12, help="of the tuning")
    parser.add_argument("--seeds", type=int, default=3, help="fresh seeds that the two choices are run on")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options = parser.parse_args()
    split = {"name": "classes", "classes_per_client": 2}
    problem = PROBLEMS[options.problem] | {"partition": split, "device": options.device}
    points = [{"eta_l": eta_l, "eta_s": eta_s} for eta_l in RATES for eta_s in SERVER_RATES]
    final = {json.dumps(point): last(problem, point, seed=0) for point in points}
    from_grid = json.loads(max(final, key=lambda key: final[key]))
    with tempfile.TemporaryDirectory() as folder:
        space = {"algorithm.eta_l": Log(RATES[-1], RATES[0]), "algorithm.eta_s": Log(SERVER_RATES[0], SERVER_RATES[-1])}
        base = problem | {"seed": 0, "algorithm": METHOD, "checkpoint_every": 1000}
        tuned = tune(plan(base, Path(folder) / "tuning", trials=options.trials, batch=options.trials, search=space))
    assert tuned.best is not None
    from_tuning = {key.removeprefix("algorithm."): value for key, value in tuned.best.point.items()}
    grid_rounds = len(points) * problem["rounds"]
    fresh = range(1, options.seeds + 1)
    result = {
        "problem": options.problem,
        "points": len(points),
        "trials": options.trials,
        "grid": {"rounds": grid_rounds, **from_grid, "accuracies": [last(problem, from_grid, s) for s in fresh]},
        "tuning": {"rounds": tuned.rounds, **from_tuning, "accuracies": [last(problem, from_tuning, s) for s in fresh]},
        "times_fewer_rounds": grid_rounds / tuned.rounds,
    }
    lost = statistics.fmean(result["grid"]["accuracies"]) - statistics.fmean(result["tuning"]["accuracies"])
    print(json.dumps(result | {"points_of_accuracy_lost": 100 * lost}, indent=2))


def last(problem: dict[str, Any], rates: dict[str, float], seed: int) -> float:
    """The mean accuracy of the last five evaluations; 0 of a run that diverged."""
    run = fedamd.run(**problem, seed=seed, algorithm=METHOD | rates)
    if run.summary["status"] == "diverged":
        return 0.0
    told = [record.accuracy for record in run.metrics if record.accuracy is not None]
    return statistics.fmean(told[-5:])


if __name__ == "__main__":
    main()
