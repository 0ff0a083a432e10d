"""Small pieces of work that leave files: how each is begun, how it goes on after a crash, and what it must leave."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import fedamd
from fedamd.campaigns.compare import compare, contestants
from fedamd.campaigns.grid import Grid
from fedamd.campaigns.sweep import plan, sweep
from fedamd.errors import FedamdError
from fedamd.flower.app.memory import LostVersion, Memory
from fedamd.runs.experiment import build_experiment
from fedamd.runs.folder import default_folder  # noqa: F401  imported before anything is watched
from fedamd.runs.run import Run
from fedamd.runs.sealed import read_json
from fedamd.studies.paper.store import PaperStore, config_hash

CONFIG: dict[str, Any] = {
    "data": {"name": "quadratic", "samples": 2, "dimension": 3},
    "clients": 5,
    "cohort": 2,
    "rounds": 20,
    "checkpoint_every": 2,
    "engine": "loop",
    "algorithm": {"steps": 1, "small_batch": 1, "p": 0.5, "cache": "client"},
}
FLAT = {"data.name": "quadratic", "data.samples": 2, "data.dimension": 3, "clients": 5, "cohort": 2, "engine": "loop"}
Mark = Callable[[int], None]


@dataclass(frozen=True)
class Workload:
    begin: Callable[[Path, Mark], None]
    go_on: Callable[[Path], None]  # in a folder that a crash has left
    left: Callable[[Path], Any]  # what must be the same; for stores, what is there
    acknowledged: bool = False  # whether each mark promises one more entry


def run_left(folder: Path) -> Any:
    """Metrics and summary without the times, and the model."""
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    summary = read_json(folder / "summary.json")
    for record in (*metrics, summary):
        record.pop("seconds"), record.pop("check", None)
    return metrics, summary, (folder / "model.safetensors").read_bytes()


def run_workload(**changes: Any) -> Workload:
    def begin(folder: Path, mark: Mark) -> None:  # noqa: ARG001
        fedamd.run(CONFIG, out=folder / "run", **changes)

    def go_on(folder: Path) -> None:
        if (folder / "run" / "config.toml").exists():
            fedamd.resume(folder / "run")
        else:
            fedamd.run(CONFIG, out=folder / "run", **changes)

    return Workload(begin, go_on, lambda folder: run_left(folder / "run"))


def sweep_begin(folder: Path, mark: Mark = lambda _: None) -> None:  # noqa: ARG001
    sweep(plan(CONFIG | {"rounds": 8}, Grid.parse(["algorithm.eta_l=0.1,0.2"]), folder / "sweep"))


def sweep_left(folder: Path) -> Any:
    runs = sorted((folder / "sweep" / "runs").iterdir())
    return [run_left(one) for one in runs], json.loads((folder / "sweep" / "sweep.json").read_text())


def compare_begin(folder: Path, mark: Mark = lambda _: None) -> None:  # noqa: ARG001
    methods, _ = contestants([], ["fedamd", "fedavg"], FLAT | {"rounds": 8, "checkpoint_every": 2})
    compare(methods, folder / "both")


def compare_left(folder: Path) -> Any:
    rows = json.loads((folder / "both" / "comparison.json").read_text())["methods"]
    runs = [run_left(folder / "both" / row["folder"]) for row in rows]
    return runs, [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def entries() -> list[Run]:
    """Runs that have ended, as the paper's store keeps them."""
    made = build_experiment(fedamd.load_config(CONFIG))
    runs = []
    for seed in range(12):
        config = fedamd.load_config(CONFIG, {"seed": seed})
        run = Run(type(made)(config, made.dataset, made.clients, made.model, made.algorithm, made.x0))
        run.status = "finished"
        runs.append(run)
    return runs


def store_begin(folder: Path, mark: Mark = lambda _: None) -> None:
    store = PaperStore(folder / "paper")
    for number, run in enumerate(entries()):
        store.add("figure", run, False, {"label": "x"})
        mark(number)


def store_go_on(folder: Path) -> None:
    """What is there is read; what is missing is made."""
    store = PaperStore(folder / "paper")
    known = {line["hash"] for line in store._grid.values()}
    for run in entries():
        if config_hash(run.config) not in known:
            store.add("figure", run, False, {"label": "x"})


def store_left(folder: Path) -> Any:
    lines = [json.loads(line) for line in (folder / "paper" / "figure.jsonl").read_text().splitlines()]
    return sorted(json.dumps(line, sort_keys=True) for line in lines)


def memory_begin(folder: Path, mark: Mark = lambda _: None) -> None:
    memory = Memory(folder / "client", 0, "run")
    for number in range(1, 17):
        memory.write(number, {"a": torch.full((3,), float(number))}, max(0, number - 1), max(0, number - 2))
        mark(number)


def memory_go_on(folder: Path) -> None:
    """Whatever version is there holds its number; one that is not is refused by `read`."""
    memory = Memory(folder / "client", 0, "run")
    for number in memory.numbers():
        if not torch.equal(memory.read(number)["a"], torch.full((3,), float(number))):
            raise AssertionError(f"version {number} is another one")


def memory_left(folder: Path) -> Any:
    return Memory(folder / "client", 0, "run").numbers()


WORKLOADS = {
    "run": run_workload(),
    "disk": run_workload(client_store="disk"),
    "sweep": Workload(sweep_begin, sweep_begin, sweep_left),
    "compare": Workload(compare_begin, compare_begin, compare_left),
    "store": Workload(store_begin, store_go_on, store_left),
    "memory": Workload(memory_begin, memory_go_on, memory_left, acknowledged=True),
}
REFUSED = (FedamdError, LostVersion)
