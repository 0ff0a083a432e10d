"""How a round scales with the number of clients M: time and memory.

    python benchmarks/massive.py [--clients 1000 10000 100000 1000000] [--rounds 60] [--repeats 3] [--json]

FedAMD with client-held caches that start lazily, a virtual partition of the digits, the clients' vectors in a store on
disk, a cohort of 50. Every M is measured in several processes of its own, which take turns. The clock on the wall gives
a process's median round, the processor's clock its mean one, checkpoints included; of the processes the least disturbed
counts for time, and the largest for memory. The bar: M = 10⁶ costs at most 1.2 times what M = 10³ costs.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

BAR = 1.2
WARM_UP = 5  # rounds before the first that is timed


def measure(clients: int, rounds: int) -> dict[str, float]:
    """One run, in this process: the median round, and megabytes."""
    import fedamd

    config = {
        "clients": clients,
        "cohort": 50,
        "rounds": rounds,
        "evaluate_every": 10,
        "client_store": "disk",
        "partition": {"name": "virtual"},
        "model": {"name": "mlp", "hidden": 32},
        "algorithm": {"cache": "client", "start_up": "lazy", "p": 0.5, "steps": 5, "small_batch": 16},
    }
    fedamd.run(rounds=1)  # libraries and kernels are loaded, whatever M is
    megabytes = resident()
    clock = []  # after every round, its records written and its checkpoint where one is due

    def note(*_: object) -> None:
        clock.append((time.perf_counter(), time.process_time()))

    with tempfile.TemporaryDirectory() as folder:
        fedamd.run(config, out=Path(folder) / "run", listen=note)
        stored = (Path(folder) / "run" / "held.sqlite").stat().st_size / 1e6
    rounds_timed = list(pairwise(clock[WARM_UP:]))
    return {
        "ms_per_round": 1e3 * statistics.median(after[0] - before[0] for before, after in rounds_timed),
        "processor_ms_per_round": 1e3 * statistics.fmean(after[1] - before[1] for before, after in rounds_timed),
        "megabytes_added": resident() - megabytes,
        "megabytes_peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "megabytes_on_disk": stored,
    }


def resident() -> float:
    """Megabytes of memory this process occupies."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def in_a_process_of_its_own(clients: int, rounds: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", str(clients), "--rounds", str(rounds)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured: dict[str, float] = json.loads(output)
    return measured


def together(measured: list[dict[str, float]]) -> dict[str, float]:
    """The least time and the most memory of several processes."""
    return {name: round((min if "ms" in name else max)(one[name] for one in measured), 2) for name in measured[0]}


def show(result: dict[str, dict[str, float]], ratios: dict[str, float]) -> None:
    print("       M  ms/round  processor ms  MB added  MB peak  MB on disk")
    for clients, one in result.items():
        print(
            f"{int(clients):>8} {one['ms_per_round']:>9.1f} {one['processor_ms_per_round']:>13.1f}"
            f" {one['megabytes_added']:>9.1f} {one['megabytes_peak']:>8.1f} {one['megabytes_on_disk']:>11.1f}"
        )
    print("largest M against smallest:", ", ".join(f"{name} {ratio}" for name, ratio in ratios.items()), f"(bar {BAR})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    parser.add_argument("--one", type=int, metavar="M", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.one:
        print(json.dumps(measure(words.one, words.rounds)))
        return
    measured: dict[int, list[dict[str, float]]] = {clients: [] for clients in words.clients}
    for _ in range(words.repeats):
        for clients, runs in measured.items():
            runs.append(in_a_process_of_its_own(clients, words.rounds))
    result = {str(clients): together(runs) for clients, runs in measured.items()}
    smallest, largest = result[str(min(measured))], result[str(max(measured))]
    ratios = {
        name: round(largest[name] / smallest[name], 3)
        for name in ("ms_per_round", "processor_ms_per_round", "megabytes_peak")
    }
    if words.json:
        print(
            json.dumps(
                {"rounds": words.rounds, "repeats": words.repeats, "clients": result, "ratios": ratios}, indent=2
            )
        )
    else:
        show(result, ratios)


if __name__ == "__main__":
    main()
