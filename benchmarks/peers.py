"""The same FedAvg workload on the frameworks one would pick instead, measured in one run.

    python benchmarks/peers.py [--only plain,pfl,fedamd] [--rounds 20] [--passes 2] [--envs FOLDER]

W: Fashion-MNIST, 100 clients × 600 samples of 2 classes, LeNet-5, 20 clients a round, K = 10 local steps on b' = 64
samples, the global model evaluated on 10,000 images after every round. Every framework is installed into a virtual
environment of its own, with the PyTorch of this one, and driven through its public interface by a small program in
`benchmarks/peers/`; all get the same data in memory, the same processors and the same number of threads. Passes take
turns, so that all see the same disturbances. Writes peers.json, peers.md and peers.png into `--out`.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch

import fedamd
from fedamd.data import load
from fedamd.data.partition import ByClasses
from fedamd.runs.environment import processor

HERE = Path(__file__).parent
CLIENTS = 100
TIMEOUT = 900  # seconds for one program
STEPS, EPOCH = "10 × 64", "1 epoch: 9 × 64 + 24"
TORCHVISION = "it imports torchvision, two operators of which are only declared where the compiled ones do not load"


@dataclass(frozen=True)
class Peer:
    """A framework: the program that runs W on it, and what pip has to install for that program."""

    name: str
    program: str
    local: str  # what a client does in a round
    how: str  # which part of the framework does what
    requires: tuple[str, ...] = ()  # nothing: it runs in this environment


PEERS = {
    "plain": Peer("plain PyTorch loop", "run_plain.py", STEPS, "one client after the other, torch.optim.SGD"),
    "fedamd": Peer("fedamd", "run_fedamd.py", STEPS, "fedamd.run with the vector engine and the native oracle"),
    "flower": Peer(
        "Flower, on Ray",
        "run_flower.py",
        STEPS,
        "run_simulation, one Ray worker of one thread for each processor; local steps as in the plain loop; starting "
        "Ray and its workers falls into the first round, which does not count",
        ("flwr[simulation]==1.41.0",),
    ),
    "pfl": Peer(
        "pfl",
        "run_pfl.py",
        EPOCH,
        "SimulatedBackend in one process with its own local training and central evaluation; batches are cut once",
        ("pfl==0.6.0",),
    ),
    "fluke": Peer(
        "fluke",
        "run_fluke.py",
        EPOCH,
        f"CentralizedFL with objects in memory, FastDataLoader, accuracy as the only metric; {TORCHVISION}",
        ("fluke-fl==0.8.1",),
    ),
    "fedlab": Peer(
        "FedLab",
        "run_fedlab.py",
        STEPS,
        f"StandalonePipeline with the serial SGD trainer, fed with batches from memory; {TORCHVISION}",
        ("fedlab==1.3.0",),
    ),
}


def main() -> None:
    options = parse()
    machine = describe_machine(options.cpus)
    if machine["load_before"] > 0.5:
        print(f"the machine is busy (load {machine['load_before']}): do not publish these numbers", file=sys.stderr)
    os.sched_setaffinity(0, machine["cpus"])  # inherited by every program
    outcomes: dict[str, dict[str, Any]] = {key: {"name": PEERS[key].name} for key in options.only}
    pythons = {key: interpreter(key, options.envs, outcomes[key]) for key in options.only}
    with tempfile.TemporaryDirectory() as folder:
        data = write_data(Path(folder))
        for turn in range(options.passes):
            for key, python in pythons.items():
                if "error" not in outcomes[key]:
                    print(f"pass {turn + 1}: {PEERS[key].name}", flush=True)
                    measure(PEERS[key], python, data, options.rounds, outcomes[key])
    facts = {"command": command(options), "machine": machine, "rounds": options.rounds, "passes": options.passes}
    report(facts | {"peers": summarise(outcomes)}, options.out)


def parse() -> argparse.Namespace:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PEERS), help=", ".join(PEERS))
    parser.add_argument("--rounds", type=int, default=20, help="rounds measured in a pass, after one that is not")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--cpus", type=int, default=2, help="processors, and threads of PyTorch, for each")
    parser.add_argument("--envs", type=Path, default=cache / "fedamd" / "peers", help="where environments are kept")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    if unknown := [key for key in options.only if key not in PEERS]:
        parser.error(f"--only knows {', '.join(PEERS)}; not {', '.join(unknown)}")
    return options


def command(options: argparse.Namespace) -> str:
    """What was asked for, less where things lie on this machine."""
    chosen = [] if options.only == list(PEERS) else ["--only", ",".join(options.only)]
    numbers = [f"--{name} {getattr(options, name)}" for name in ("rounds", "passes", "cpus")]
    return " ".join(["python benchmarks/peers.py", *chosen, *numbers])


# --- what is needed to run ---


def interpreter(key: str, envs: Path, outcome: dict[str, Any]) -> Path:
    """The Python a framework runs in: this one, or that of its own environment, made on first use."""
    wanted = PEERS[key].requires
    if not wanted:
        return Path(sys.executable)
    folder = envs.resolve() / key
    python, done = folder / "bin" / "python", folder / "installed.txt"
    packages = [f"torch=={torch.__version__.split('+')[0]}", *wanted]
    if not done.exists() or done.read_text().split() != packages:
        print(f"installing {' '.join(packages)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], capture_output=True, text=True)
        if pip.returncode:
            outcome["error"] = f"pip: {last_line(pip.stderr)}"
            return python
        done.write_text("\n".join(packages))
    return python


def write_data(folder: Path) -> Path:
    """W's data, dealt out to the clients, as plain arrays."""
    dataset, path = load("fashion-mnist"), folder / "w.npz"
    partition = ByClasses(2)(dataset, CLIENTS, seed=0)
    owned = torch.stack([partition.samples(client) for client in range(CLIENTS)])
    arrays = {
        "x": dataset.inputs[owned],
        "y": dataset.targets[owned],
        "test_x": dataset.test_inputs,
        "test_y": dataset.test_targets,
    }
    np.savez(path, **{name: values.numpy() for name, values in arrays.items()})
    return path


def describe_machine(cpus: int) -> dict[str, Any]:
    """The processors used are the first ones this process may use."""
    available = sorted(os.sched_getaffinity(0))
    return {
        "processor": processor(),
        "cores": len(available),
        "cpus": available[:cpus],
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


# --- measuring ---


def measure(peer: Peer, python: Path, data: Path, rounds: int, outcome: dict[str, Any]) -> None:
    """One pass: the seconds of `rounds` rounds, after one that is not counted, are added to the outcome."""
    result = data.with_name("result.json")
    result.unlink(missing_ok=True)
    try:
        program = subprocess.run(
            [python, HERE / "peers" / peer.program, data, str(rounds + 1), result],
            env=environment(peer),
            cwd=data.parent,  # some frameworks leave files behind
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        outcome["error"] = f"not done after {TIMEOUT} s"
        return
    if not result.exists():
        outcome["error"] = last_line(program.stderr or program.stdout)
        return
    found = json.loads(result.read_text())
    outcome["version"] = found["version"]
    outcome.setdefault("seconds", []).extend(found["seconds"])
    outcome.setdefault("accuracies", []).append(found["accuracies"])


def environment(peer: Peer) -> dict[str, str]:
    """As many threads as processors, nothing sent home, and no package of this environment but for its own programs."""
    threads = str(len(os.sched_getaffinity(0)))
    silent = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "WANDB_MODE": "disabled"}
    path = "" if peer.requires else str(Path(fedamd.__file__).parents[1])
    return os.environ | silent | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "PYTHONPATH": path}


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


def summarise(outcomes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Adds the medians, and their ratios to those of the plain loop and of fedamd where these were measured."""
    medians = {key: statistics.median(one["seconds"]) for key, one in outcomes.items() if "error" not in one}
    for key, median in medians.items():
        outcomes[key]["median"] = median
        for base in ("plain", "fedamd"):
            if base in medians:
                outcomes[key][f"over_{base}"] = median / medians[base]
    return outcomes


# --- reporting ---


def report(facts: dict[str, Any], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "peers.json").write_text(json.dumps(facts, indent=2) + "\n")
    (out / "peers.md").write_text(as_markdown(facts))
    draw(facts["peers"], out / "peers.png")
    print((out / "peers.md").read_text())


def as_markdown(facts: dict[str, Any]) -> str:
    machine = facts["machine"]
    rows = [row(key, one) for key, one in in_order(facts["peers"])]
    failed = [f"- {one['name']}: {one['error']}" for one in facts["peers"].values() if "error" in one]
    return "\n".join(
        [
            "# FedAvg on W: time of a round",
            "",
            "W: Fashion-MNIST, 100 clients × 600 samples of 2 classes, LeNet-5, 20 clients a round, evaluation on",
            "10,000 images after every round. Seconds are those of one machine; the ratios are what counts. The",
            "accuracy after a pass's last round shows that training went on, and does not compare: draws differ.",
            "",
            "| framework | version | local work | seconds a round | range | ÷ plain loop | ÷ fedamd | accuracy |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            *(f"- {one['name']}: {PEERS[key].how}." for key, one in facts["peers"].items()),
            "",
            *(["Could not be measured:", "", *failed, ""] if failed else []),
            f"Command: `{facts['command']}`.",
            f"Medians over {facts['passes']} × {facts['rounds']} rounds, the first of every pass not counted.",
            f"{machine['processor']}, {len(machine['cpus'])} of {machine['cores']} processors, "
            f"Python {machine['python']}, PyTorch {machine['torch']}, load before the start {machine['load_before']}.",
            "",
        ]
    )


def in_order(peers: dict[str, dict[str, Any]]) -> Iterable[tuple[str, dict[str, Any]]]:
    """The fastest first; those without a number last."""
    return sorted(peers.items(), key=lambda item: item[1].get("median", float("inf")))


def row(key: str, one: dict[str, Any]) -> str:
    if "error" in one:
        return f"| {one['name']} | {one.get('version', '–')} | {PEERS[key].local} | not measured, see below | | | | |"
    ratios = [f"{one[name]:.2f}" if name in one else "–" for name in ("over_plain", "over_fedamd")]
    accuracy = statistics.median(pass_[-1] for pass_ in one["accuracies"])
    cells = [
        one["name"],
        one["version"],
        PEERS[key].local,
        f"{one['median']:.3f}",
        f"{min(one['seconds']):.3f}–{max(one['seconds']):.3f}",
        *ratios,
        f"{accuracy:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def draw(peers: dict[str, dict[str, Any]], path: Path) -> None:
    """Bars of seconds a round, the range of all rounds as a line."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    measured = [one for _, one in in_order(peers) if "median" in one][::-1]
    if not measured:
        return
    medians = np.array([one["median"] for one in measured])
    reach = np.array([[one["median"] - min(one["seconds"]), max(one["seconds"]) - one["median"]] for one in measured])
    colours = ["#1f6f5c" if one["name"] == "fedamd" else "#9aa5ad" for one in measured]
    figure, axes = pyplot.subplots(figsize=(7, 0.6 + 0.45 * len(measured)), layout="constrained")
    axes.barh([one["name"] for one in measured], medians, xerr=reach.T, color=colours, ecolor="#444444", height=0.65)
    for position, one in enumerate(measured):
        ratio = f"  ({one['over_plain']:.2f} × plain loop)" if "over_plain" in one else ""
        axes.text(max(one["seconds"]), position, f"  {one['median']:.2f} s{ratio}", va="center", fontsize=8)
    axes.set_xlim(0, 1.4 * max(max(one["seconds"]) for one in measured))
    axes.set_xlabel("seconds a round of FedAvg, evaluation included")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
