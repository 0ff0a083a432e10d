"""How a round of W scales with the cores of a CPU: one process on 1, 2, 4, … cores, and as many processes of one.

    python benchmarks/cores.py [--cores 1 2 4 8 16] [--turns 3] [--seconds 240] [--json FILE]

W with FedAvg and evaluation after every round (see docs/performance.md), milliseconds a round as the median of its
rounds but the first two. Every measurement is a process of its own that may use so many CPUs, no two of one core as
long as there are others; several processes are started as a user starts them, by torchrun. All are measured in turns,
since a virtual machine's CPUs are faster at one time than at another, and those not begun when the seconds are over
are left out.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

WARM_UP = 2
ROUNDS = 15


def play(tiny: bool) -> None:
    """Some rounds in this process; the first of several prints how long each took."""
    from pictures import fashion_mnist

    import fedamd
    from fedamd.oracles.native.library import available
    from fedamd.torchrun import is_writer

    if reason := available():
        sys.exit(f"the native oracle, which is to be measured, cannot be used: {reason}")
    settings = {
        "data": fashion_mnist(tiny),
        "algorithm": {"name": "fedavg"} | ({"steps": 2, "small_batch": 4} if tiny else {}),
        "partition": {"name": "classes"},
        "model": {"name": "lenet5"},
        "clients": 10 if tiny else 100,
        "cohort": 4 if tiny else 20,
        "rounds": WARM_UP + 1 if tiny else ROUNDS,
    }
    result = fedamd.run(settings)
    if is_writer():
        print(json.dumps([record.seconds for record in result.metrics if record.round >= WARM_UP]))


def milliseconds(cores: int, processes: int, tiny: bool) -> float:
    """Of a round, in so many processes that share so many cores."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *(launcher if processes > 1 else []), __file__, "--play", *(["--tiny"] if tiny else [])]
    usable = cpus()[:cores]
    threads = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}  # by the cores
    done = subprocess.run(
        command,
        env=threads | {"OMP_WAIT_POLICY": "passive"},  # as the command line sets it
        preexec_fn=partial(os.sched_setaffinity, 0, usable),
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        sys.exit(f"a process on {cores} cores did not play its rounds; it has said why above")
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])
    return 1000 * median(seconds)


def cpus() -> list[int]:
    """Those of this process: first one of every core, then those that share a core with another."""

    def place(cpu: int) -> tuple[int, int]:
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        siblings = path.read_text().strip().replace("-", ",").split(",") if path.exists() else []
        return int(bool(siblings) and int(siblings[0]) != cpu), cpu

    return sorted(os.sched_getaffinity(0), key=place)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="those there are will be used")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tiny", action="store_true", help="three rounds of little work: figures mean nothing")
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.play:
        play(options.tiny)
        return
    there = len(os.sched_getaffinity(0))
    wanted = [cores for cores in options.cores if cores <= there]
    shapes = [(cores, 1) for cores in wanted] + [(cores, cores) for cores in wanted if 1 < cores <= 8]
    deadline = time.perf_counter() + options.seconds
    measured: dict[tuple[int, int], list[float]] = {shape: [] for shape in shapes}
    for (cores, processes), found in list(measured.items()) * options.turns:
        if time.perf_counter() > deadline:
            print(f"{cores} cores, {processes} processes: left out, the {options.seconds:.0f} s were over")
            continue
        found.append(milliseconds(cores, processes, options.tiny))
        print(f"{cores} cores, {processes} processes: {found[-1]:.1f} ms a round", flush=True)
    rows = [
        {"cores": cores, "processes": processes, "ms": median(found), "turns": found}
        for (cores, processes), found in measured.items()
        if found
    ]
    if options.json:
        from fedamd.runs.environment import processor

        machine = {"processor": processor(), "cpus": cpus(), "cores": there, "python": platform.python_version()}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"machine": machine, "rounds": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
