"""Published workloads on this machine, with pfl on its own workload side by side: a table and a figure.

    python benchmarks/workloads.py [--device cpu] [--rounds blazefl=5 --rounds pfl=10 …] [--without-pfl] [--out FOLDER]

`fedamd bench workloads` measures one in this process; here each has a process of its own, so that memory is its own,
too. Where not all rounds are run, the time of the whole workload is reckoned from them, and marked so. pfl gets an
environment of its own, the same data in memory and as many threads. Writes workloads.json, workloads.md and
workloads.png.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from peers import describe_machine, interpreter

from fedamd.workloads import WORKLOADS

HERE = Path(__file__).parent
ROUNDS = {"blazefl": 5, "pfl": 10, "flute-femnist": 30, "flute-cifar100": 2}  # what a laptop does in a few minutes


def main() -> None:
    options = parse()
    machine = describe_machine(os.cpu_count() or 1)
    if machine["load_before"] > 0.5:
        print(f"the machine is busy (load {machine['load_before']}): do not publish these numbers", file=sys.stderr)
    rounds = ROUNDS | dict(options.rounds)
    results = [measure(name, rounds[name], options.device) for name in WORKLOADS]
    if not options.without_pfl:
        pfl = next(result for result in results if result["workload"] == "pfl")
        pfl["beside"] = measure_pfl(rounds["pfl"], options.envs)
    options.out.mkdir(parents=True, exist_ok=True)
    facts = {"command": command(options), "machine": machine, "workloads": results}
    (options.out / "workloads.json").write_text(json.dumps(facts, indent=2) + "\n")
    (options.out / "workloads.md").write_text(as_markdown(facts))
    draw(results, options.out / "workloads.png")
    print(as_markdown(facts))


def parse() -> argparse.Namespace:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=one_number, action="append", default=[], metavar="WORKLOAD=ROUNDS")
    parser.add_argument("--without-pfl", action="store_true", help="do not run pfl beside it")
    parser.add_argument("--envs", type=Path, default=cache / "fedamd" / "peers", help="where environments are kept")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    return parser.parse_args()


def one_number(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if name not in WORKLOADS:
        raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(WORKLOADS)}")
    return name, int(number)


def command(options: argparse.Namespace) -> str:
    chosen = [f"--rounds {name}={number}" for name, number in options.rounds]
    device = [] if options.device == "cpu" else [f"--device {options.device}"]
    alone = ["--without-pfl"] if options.without_pfl else []
    return " ".join(["python benchmarks/workloads.py", *device, *chosen, *alone])


def measure(name: str, rounds: int, device: str) -> dict[str, Any]:
    """One workload in a process of its own."""
    print(f"{name}: {rounds} rounds", flush=True)
    flags = ["bench", "workloads", "--workload", name, "--rounds", str(rounds), "--device", device, "--json"]
    done = subprocess.run([sys.executable, "-m", "fedamd", *flags], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)[0]  # type: ignore[no-any-return]


def measure_pfl(rounds: int, envs: Path) -> dict[str, Any]:
    """The same workload on pfl: its version and the median seconds of a round after the first."""
    outcome: dict[str, Any] = {}
    python = interpreter("pfl", envs, outcome)
    if outcome:
        return outcome
    print(f"pfl itself: {rounds} rounds", flush=True)
    work = WORKLOADS["pfl"]
    with tempfile.TemporaryDirectory() as folder:
        data, result = Path(folder) / "data.npz", Path(folder) / "result.json"
        dataset = work.dataset()
        count = work.clients * work.samples
        images = dataset.inputs[:count].reshape(work.clients, work.samples, *work.shape)
        np.savez(data, x=images.numpy(), y=dataset.targets[:count].reshape(work.clients, work.samples).numpy())
        program = [python, HERE / "peers" / "run_pfl_cifar.py", data, str(rounds), result]
        done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
        if not result.exists():
            return {"error": done.stderr.strip().splitlines()[-1:]}
        found = json.loads(result.read_text())
    return {"version": found["version"], "each_round": statistics.median(found["seconds"])}


def as_markdown(facts: dict[str, Any]) -> str:
    machine = facts["machine"]
    lines = [
        "# Published workloads",
        "",
        "FedAvg with the models, clients, batches and steps as published. Quoted figures are of others' machines.",
        "",
        "| workload | on | oracle | rounds | first round | a round | all rounds | memory | quoted |",
        "|---|---|---|---|---|---|---|---|---|",
        *(row(result) for result in facts["workloads"]),
        "",
    ]
    for result in facts["workloads"]:
        beside = result.get("beside", {})
        if "each_round" in beside:
            ratio = beside["each_round"] / result["each_round"]
            lines += [
                f"pfl {beside['version']} on the same machine, data and threads: {beside['each_round']:.2f} s a round, "
                f"{ratio:.2f} times fedamd's.",
                "",
            ]
    told = (
        f"{machine['processor']}, {machine['cores']} processors, Python {machine['python']}, PyTorch {machine['torch']}"
    )
    return "\n".join(
        [*lines, f"Command: `{facts['command']}`. {told}, load before the start {machine['load_before']}.", ""]
    )


def row(result: dict[str, Any]) -> str:
    memory = result["peak_gpu_gib"] or result["peak_cpu_gib"] or float("nan")
    cells = [
        result["workload"],
        result["data"],
        result["oracle"],
        f"{result['rounds']} of {result['of']}",
        f"{result['first_round']:.2f} s",
        f"{result['each_round']:.3f} s",
        f"{result['whole_workload']:.0f} s" + (" (reckoned)" if result["extrapolated"] else ""),
        f"{memory:.1f} GiB",
        "; ".join(f"{who}: {figure}" for who, figure in result["quoted"].items()) or "–",
    ]
    return f"| {' | '.join(cells)} |"


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """Seconds of a round of each workload, with pfl beside its own."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    bars = []
    for result in results:
        bars.append((result["workload"], result["each_round"], "#1f6f5c"))
        if "each_round" in result.get("beside", {}):
            bars.append(("the same on pfl itself", result["beside"]["each_round"], "#9aa5ad"))
    figure, axes = pyplot.subplots(figsize=(7, 0.6 + 0.45 * len(bars)), layout="constrained")
    names, seconds, colours = zip(*bars[::-1], strict=True)
    axes.barh(names, seconds, color=colours, height=0.65)
    for position, value in enumerate(seconds):
        axes.text(value, position, f"  {value:.2f} s", va="center", fontsize=8)
    axes.set_xlim(0, 1.2 * max(seconds))
    axes.set_xlabel("seconds a round")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
